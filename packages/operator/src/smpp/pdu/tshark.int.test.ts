/** Wireshark's decoder reads the PDUs that the codec writes. The test is skipped where it is missing. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { encodePdu } from './encode.ts'

const run = promisify(execFile)

/** The PDUs, and the values that Wireshark must read, by the names of its fields. */
const PDUS: ReadonlyArray<readonly [Buffer, Readonly<Record<string, string>>]> = [
  [
    encodePdu('bind_transceiver', 1, {
      system_id: 'hub',
      password: 'secret',
      system_type: 'VMS',
      interface_version: 0x34,
    }),
    {
      'smpp.command_id': '0x00000009',
      'smpp.sequence_number': '1',
      'smpp.system_id': 'hub',
      'smpp.password': 'secret',
      'smpp.system_type': 'VMS',
    },
  ],
  [
    encodePdu('submit_sm', 2, {
      source_addr_ton: 5,
      source_addr: 'HUB',
      dest_addr_ton: 1,
      dest_addr_npi: 1,
      destination_addr: '79001234567',
      esm_class: 0x40,
      validity_period: '000000010205000R',
      registered_delivery: 1,
      data_coding: 8,
      short_message: Buffer.from('050003090201042f', 'hex'),
    }),
    {
      'smpp.command_id': '0x00000004',
      'smpp.source_addr_ton': '0x05',
      'smpp.source_addr': 'HUB',
      'smpp.dest_addr_npi': '0x01',
      'smpp.destination_addr': '79001234567',
      'smpp.data_coding': '0x08',
      'smpp.sm_length': '8',
    },
  ],
  [
    encodePdu('deliver_sm', 3, {
      source_addr: '79001234567',
      destination_addr: 'HUB',
      esm_class: 4,
      short_message: Buffer.from('id:4711 stat:DELIVRD'),
      receipted_message_id: '4711',
      message_state: 2,
      user_message_reference: 0x1234,
      sar_msg_ref_num: 0x0102,
      sar_total_segments: 3,
      sar_segment_seqnum: 2,
    }),
    {
      'smpp.command_id': '0x00000005',
      'smpp.receipted_message_id': '4711',
      'smpp.message_state': '2',
      'smpp.user_message_reference': '0x1234',
      'smpp.sar_msg_ref_num': String(0x0102),
      'smpp.sar_total_segments': '3',
      'smpp.sar_segment_seqnum': '2',
    },
  ],
  [
    encodePdu('data_sm', 4, { source_addr: '79001234567', message_payload: Buffer.from('STOP') }),
    { 'smpp.command_id': '0x00000103', 'smpp.message_payload': '53544f50' },
  ],
  [
    encodePdu('submit_sm_resp', 5, { message_id: 'a-1' }),
    { 'smpp.command_id': '0x80000004', 'smpp.message_id': 'a-1', 'smpp.command_status': '0x00000000' },
  ],
  [
    encodePdu('deliver_sm_resp', 6, {}, 0x64),
    { 'smpp.command_id': '0x80000005', 'smpp.command_status': '0x00000064' },
  ],
  [encodePdu('enquire_link', 7), { 'smpp.command_id': '0x00000015', 'smpp.sequence_number': '7' }],
  [
    encodePdu('generic_nack', 0, {}, 3),
    { 'smpp.command_id': '0x80000000', 'smpp.command_status': '0x00000003' },
  ],
]

it('Wireshark reads the values that were written', async (context) => {
  const versions = await Promise.all([run('tshark', ['--version']), run('text2pcap', ['--version'])]).catch(
    () => null,
  )
  if (versions === null) {
    console.log('Skipped: tshark and text2pcap are not installed (Debian package tshark)')
    return context.skip('tshark is not installed')
  }
  const folder = await mkdtemp(join(tmpdir(), 'hub-smpp-'))
  try {
    // The format of text2pcap: one line per packet, the offset and then the octets.
    const lines = PDUS.map(([pdu]) => `000000 ${pdu.toString('hex').replaceAll(/../gu, '$& ')}`)
    await writeFile(join(folder, 'pdus.txt'), `${lines.join('\n')}\n`)
    await run('text2pcap', ['-q', '-T', '50000,2775', 'pdus.txt', 'pdus.pcap'], { cwd: folder })
    const names = [...new Set(PDUS.flatMap(([, fields]) => Object.keys(fields)))]
    const args = ['-r', 'pdus.pcap', '-d', 'tcp.port==2775,smpp', '-T', 'json', '-e', '_ws.malformed']
    const { stdout } = await run('tshark', [...args, ...names.flatMap((name) => ['-e', name])], {
      cwd: folder,
    })
    const packets = JSON.parse(stdout) as ReadonlyArray<{
      readonly _source: { readonly layers: Readonly<Record<string, ReadonlyArray<string>>> }
    }>
    expect(packets).toHaveLength(PDUS.length)
    for (const [i, { _source }] of packets.entries()) {
      const [, expected] = PDUS[i]!
      const read = Object.fromEntries(Object.keys(expected).map((name) => [name, _source.layers[name]?.[0]]))
      expect(read).toEqual(expected)
      expect(_source.layers['_ws.malformed']).toBeUndefined()
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})
