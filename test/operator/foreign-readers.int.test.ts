/**
 * Lets SMPP libraries of other authors read every PDU that the adapter sends, and compares the parts of long
 * texts with theirs: smpplib, smpp.pdu and gsm0338 of Python, and Wireshark.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Effect } from 'effect'
import { beforeAll, describe, expect, it } from 'vitest'
import { orSkip, pythonTool } from '../support/external-tools.ts'
import { commandsOf, generateTexts, recordPdus, sendTexts, SUBMISSIONS, TEXTS } from '../support/sent-pdus.ts'

const run = promisify(execFile)
const READER = join(import.meta.dirname, 'read_pdus.py')

let tool: Awaited<ReturnType<typeof pythonTool>>
beforeAll(async () => {
  console.log('gosmpp takes minutes to compile, so it is not here: npm run interop -- gosmpp')
  tool = await pythonTool('smpplib', '2.2.4', { 'smpp.pdu3': '0.6', gsm0338: '1.1.0' })
}, 200_000)

/** Runs the reader on lines, and parses the line that it prints for each of them. */
const readWithPython = async <A>(
  folder: string,
  kind: 'pdus' | 'texts',
  lines: ReadonlyArray<string>,
): Promise<ReadonlyArray<A>> => {
  const input = await mkdtemp(join(tmpdir(), 'hub-readers-'))
  try {
    const file = join(input, 'lines.txt')
    await writeFile(file, lines.join('\n'))
    const { stdout } = await run(join(folder, 'bin/python'), [READER, kind, file], {
      maxBuffer: 256 * 1024 * 1024,
    })
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as A)
  } finally {
    await rm(input, { recursive: true })
  }
}

interface Reading {
  readonly smpplib: {
    readonly command: string
    readonly sequence: number
    readonly status: number
    readonly fields: Readonly<Record<string, string | number>>
  }
  readonly 'smpp.pdu': { readonly command: string; readonly octets: string }
}

const COMMANDS = [
  'bind_receiver',
  'bind_transceiver',
  'bind_transmitter',
  'data_sm_resp',
  'deliver_sm_resp',
  'enquire_link',
  'enquire_link_resp',
  'generic_nack',
  'submit_sm',
  'unbind',
  'unbind_resp',
]

describe('the PDUs that the adapter sends', () => {
  it('are read by smpplib, and written by smpp.pdu with the same octets', async (context) => {
    const { folder } = await orSkip(context, tool)
    const pdus = await Effect.runPromise(recordPdus)
    const readings = await readWithPython<Reading>(
      folder,
      'pdus',
      pdus.map((pdu) => pdu.toString('hex')),
    )
    expect(readings.map((reading) => reading['smpp.pdu'].octets)).toEqual(
      pdus.map((pdu) => pdu.toString('hex')),
    )
    expect(readings.map((reading) => reading['smpp.pdu'].command)).toEqual(
      readings.map(({ smpplib }) => smpplib.command),
    )
    expect([...new Set(readings.map(({ smpplib }) => smpplib.command))].toSorted()).toEqual(COMMANDS)
    const fieldsOf = (command: string) =>
      readings.flatMap(({ smpplib }) => (smpplib.command === command ? [smpplib.fields] : []))
    for (const bind of ['bind_receiver', 'bind_transceiver', 'bind_transmitter']) {
      expect(fieldsOf(bind)[0]).toMatchObject({
        system_id: 'hub',
        password: 'secret',
        system_type: 'VMS',
        interface_version: 0x34,
      })
    }
    const ofNumber = (number: string) =>
      fieldsOf('submit_sm').filter(({ destination_addr }) => destination_addr === number)
    const text = 'Code 12'
    expect(ofNumber('79001234561')).toMatchObject([
      // Underscore and at sign are 0x11 and 0x00 in GSM 03.38.
      {
        source_addr: 'HUB',
        data_coding: 0,
        esm_class: 0,
        registered_delivery: 1,
        short_message: `${text}\x11\0`,
      },
    ])
    expect(ofNumber('79001234562')).toMatchObject([
      {
        source_addr: '79990000000',
        data_coding: 8,
        esm_class: 0,
        short_message: Buffer.from('041a043e0434002000310032', 'hex').toString('latin1'),
      },
    ])
    // 3GPP TS 23.040, 9.2.3.24.1: the escape and its code stay together, so the first part has 152 septets.
    expect(
      ofNumber('79001234563').map(({ esm_class, short_message }) => [
        esm_class,
        String(short_message).slice(4),
      ]),
    ).toEqual([
      [0x40, `\x02\x01${'a'.repeat(152)}`],
      [0x40, `\x02\x02\x1be${'b'.repeat(10)}`],
    ])
    expect(ofNumber('79001234564').map(({ short_message }) => String(short_message).slice(4))).toEqual([
      `\x02\x01${'\x04\x4f'.repeat(67)}`,
      `\x02\x02${'\x04\x4f'.repeat(4)}`,
    ])
    const refusals = readings.flatMap(({ smpplib: { command, status } }) =>
      status === 0 ? [] : [`${command} ${status}`],
    )
    // The text that was not stored, and the unknown command: ESME_RX_T_APPN and ESME_RINVCMDID.
    expect(refusals.toSorted()).toEqual(['deliver_sm_resp 100', 'generic_nack 3'])
  })

  it('are read by Wireshark without a warning', async (context) => {
    const versions = await Promise.all([run('tshark', ['--version']), run('text2pcap', ['--version'])]).catch(
      () => null,
    )
    await orSkip(
      context,
      versions === null
        ? { missing: 'tshark and text2pcap are not installed (Debian package tshark)' }
        : { found: versions },
    )
    const pdus = await Effect.runPromise(recordPdus)
    const folder = await mkdtemp(join(tmpdir(), 'hub-readers-'))
    try {
      // The format of text2pcap: one line for each packet, the offset and then the octets.
      const lines = pdus.map((pdu) => `000000 ${pdu.toString('hex').replaceAll(/../gu, '$& ')}`)
      await writeFile(join(folder, 'pdus.txt'), `${lines.join('\n')}\n`)
      await run('text2pcap', ['-q', '-T', '50000,2775', 'pdus.txt', 'pdus.pcap'], { cwd: folder })
      const names = ['smpp.command_id', 'smpp.sequence_number', 'smpp.destination_addr', '_ws.malformed']
      const { stdout } = await run(
        'tshark',
        [
          '-r',
          'pdus.pcap',
          '-d',
          'tcp.port==2775,smpp',
          '-T',
          'json',
          ...names.flatMap((name) => ['-e', name]),
        ],
        { cwd: folder },
      )
      const packets = JSON.parse(stdout) as ReadonlyArray<{
        readonly _source: { readonly layers: Readonly<Record<string, ReadonlyArray<string>>> }
      }>
      expect(packets.map(({ _source }) => _source.layers['_ws.malformed'] ?? null)).toEqual(
        pdus.map(() => null),
      )
      expect(packets.map(({ _source }) => Number(_source.layers['smpp.command_id']?.[0]))).toEqual(
        commandsOf(pdus),
      )
      expect(packets.map(({ _source }) => Number(_source.layers['smpp.sequence_number']?.[0]))).toEqual(
        pdus.map((pdu) => pdu.readUInt32BE(12)),
      )
      expect(packets.flatMap(({ _source }) => _source.layers['smpp.destination_addr'] ?? [])).toEqual(
        expect.arrayContaining(SUBMISSIONS.map(({ to }) => to.slice(1))),
      )
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})

interface Encoding {
  readonly parts: ReadonlyArray<string>
  readonly data_coding: number
  readonly esm_class: number
  /** Null if GSM 03.38 lacks a character. */
  readonly septets: string | null
}

const HEADER_OCTETS = 6
/** Without the header, if the text has several parts. */
const bodyOf = (parts: ReadonlyArray<Buffer>) =>
  Buffer.concat(parts.length === 1 ? parts : parts.map((part) => part.subarray(HEADER_OCTETS)))
/** With 0 as the reference, which each library chooses itself. */
const comparable = (parts: ReadonlyArray<Buffer>) =>
  parts.map((part) => {
    const copy = Buffer.from(part)
    if (parts.length > 1) copy[3] = 0
    return copy.toString('hex')
  })
/** smpplib divides by octets, also between an escape and its code, and within a pair of surrogates. */
const isDivided = (part: Buffer, dataCoding: number): boolean =>
  dataCoding === 0 ? part.at(-1) === 0x1b : (part.at(-2)! & 0xfc) === 0xd8

describe('the texts that the adapter sends', () => {
  it(`have the septets of gsm0338 and the parts of smpplib: ${TEXTS} texts`, async (context) => {
    const { folder } = await orSkip(context, tool)
    const all = generateTexts()
    const [sent, encodings] = await Promise.all([
      Effect.runPromise(sendTexts(all)),
      readWithPython<Encoding>(
        folder,
        'texts',
        all.map((text) => JSON.stringify(text)),
      ),
    ])
    let compared = 0
    for (const [i, { dataCoding, esmClass, parts }] of sent.entries()) {
      const { data_coding, esm_class, septets, ...theirs } = encodings[i]!
      expect(dataCoding).toBe(septets === null ? 8 : 0)
      const wanted = septets ?? Buffer.from(all[i]!, 'utf16le').swap16().toString('hex')
      expect(bodyOf(parts).toString('hex')).toBe(wanted)
      const foreign = theirs.parts.map((part) => Buffer.from(part, 'hex'))
      if (data_coding !== dataCoding || foreign.slice(0, -1).some((part) => isDivided(part, dataCoding))) {
        expect(parts.slice(0, -1).some((part) => isDivided(part, dataCoding))).toBe(false)
        continue
      }
      compared++
      expect(esmClass).toBe(esm_class)
      expect(comparable(parts)).toEqual(comparable(foreign))
    }
    // The others have a character that smpplib divides or does not know.
    expect(compared).toBeGreaterThan(0.6 * TEXTS)
  }, 120_000)
})
