/**
 * What the simulator refuses, and with which `command_status`. The client is npm `smpp`, or octets written
 * by hand from the tables of SMPP 3.4, and the expected values are those of 5.1.3.
 */
import { once } from 'node:events'
import { connect as connectSocket, type AddressInfo, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { makeOperator, type Operator } from '../operator.ts'
import { type ClientSession, codec, type Pdu } from './codec.ts'
import { makeSmsc, type Smsc } from './smsc.ts'

let operator: Operator
let smsc: Smsc
let port = 0
let stop: () => Promise<void>
const clients: Array<ClientSession | Socket> = []

beforeEach(async () => {
  operator = makeOperator(null, 'no journal')
  operator.setBehaviour({ silent_percent: 100 })
  smsc = makeSmsc(operator, { systemId: 'hub', password: 'secret' })
  smsc.server.listen(0, '127.0.0.1')
  await once(smsc.server, 'listening')
  port = (smsc.server.address() as AddressInfo).port
  const ending = new AbortController()
  const running = smsc.run(ending.signal)
  stop = async () => {
    ending.abort()
    await running
    operator.close()
  }
})
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  await stop()
})

type Fields = Readonly<Record<string, unknown>>
const CREDENTIALS: Fields = { system_id: 'hub', password: 'secret', interface_version: 0x34 }

/** A client of another implementation. `ask` returns the response. */
const connect = () => {
  const session = codec.connect({ host: '127.0.0.1', port })
  clients.push(session)
  session.on('error', () => {})
  return {
    session,
    ask: (command: string, fields: Fields = {}): Promise<Pdu> =>
      new Promise((resolve) => void session.send(new codec.PDU(command, fields), resolve)),
  }
}

const bound = async (command = 'bind_transceiver') => {
  const client = connect()
  expect((await client.ask(command, CREDENTIALS)).command_status).toBe(0)
  return client
}

const ACCEPTED: Fields = {
  source_addr_ton: 5,
  source_addr: 'HUB',
  dest_addr_ton: 1,
  dest_addr_npi: 1,
  destination_addr: '79001234567',
  validity_period: '000000010205000R',
  registered_delivery: 1,
  data_coding: 0,
  short_message: Buffer.from('Code 1234'),
}

const ucs2 = (text: string) => Buffer.from(text, 'utf16le').swap16()
const header = (...octets: ReadonlyArray<number>) => Buffer.from(octets)
const part = (head: Buffer, body: Buffer | string, more: Fields = {}): Fields => ({
  esm_class: 0x40,
  short_message: Buffer.concat([head, Buffer.from(body)]),
  ...more,
})
const EIGHT_BITS = header(5, 0, 3, 9, 2, 1)
const SIXTEEN_BITS = header(6, 8, 4, 0, 9, 2, 1)

describe('a submit_sm', () => {
  const accepted: ReadonlyArray<readonly [name: string, fields: Fields]> = [
    ['as the hub sends it', {}],
    ['of 160 septets', { short_message: Buffer.alloc(160, 'a') }],
    ['of 140 octets in UCS-2', { data_coding: 8, short_message: ucs2('я'.repeat(70)) }],
    ['of 153 septets after a header of six octets', part(EIGHT_BITS, 'a'.repeat(153))],
    [
      'of 67 characters after a header of six octets',
      part(EIGHT_BITS, ucs2('я'.repeat(67)), { data_coding: 8 }),
    ],
    ['of 152 septets after a header of seven octets', part(SIXTEEN_BITS, 'a'.repeat(152))],
    ['with an absolute time', { validity_period: '261130120000000+' }],
    ['with a numeric sender', { source_addr_ton: 1, source_addr_npi: 1, source_addr: '79990000000' }],
    [
      'with a long text in message_payload',
      { short_message: Buffer.alloc(0), message_payload: Buffer.alloc(500, 'a') },
    ],
    ['with segments in TLVs', { sar_msg_ref_num: 7, sar_total_segments: 2, sar_segment_seqnum: 1 }],
  ]
  it.each(accepted)('is accepted: %s', async (_, fields) => {
    const { ask } = await bound()
    expect((await ask('submit_sm', { ...ACCEPTED, ...fields })).command_status).toBe(0)
    expect(smsc.refused()).toBe(0)
  })

  const refused: ReadonlyArray<readonly [status: number, name: string, fields: Fields]> = [
    [0x01, '161 septets', { short_message: Buffer.alloc(161, 'a') }],
    [0x01, '153 septets after a header of seven octets', part(SIXTEEN_BITS, 'a'.repeat(153))],
    [0x01, '154 septets after a header of six octets', part(EIGHT_BITS, 'a'.repeat(154))],
    [
      0x01,
      '67 characters after a header of seven octets',
      part(SIXTEEN_BITS, ucs2('я'.repeat(67)), { data_coding: 8 }),
    ],
    [0x01, '71 characters in UCS-2', { data_coding: 8, short_message: ucs2('я'.repeat(71)) }],
    [0x01, '141 octets', { data_coding: 4, short_message: Buffer.alloc(141, 1) }],
    [0x01, 'a text of 255 octets', { short_message: Buffer.alloc(255, 'a') }],
    [0x01, 'half a character in UCS-2', { data_coding: 8, short_message: Buffer.from('042f04', 'hex') }],
    [0x06, 'a reserved priority', { priority_flag: 4 }],
    [0x07, 'a reserved registered_delivery', { registered_delivery: 3 }],
    [0x0a, 'a sender of 21 characters', { source_addr_ton: 0, source_addr: 'a'.repeat(21) }],
    [0x0a, 'a name of 12 characters', { source_addr: 'a'.repeat(12) }],
    [0x0a, 'a name as a number', { source_addr_ton: 1 }],
    [0x0b, 'a destination with a plus', { destination_addr: '+79001234567' }],
    [0x0b, 'no destination', { destination_addr: '' }],
    [0x0b, 'a destination of 21 digits', { destination_addr: '7'.repeat(21) }],
    [0x15, 'a service_type of six characters', { service_type: 'abcdef' }],
    [0x43, 'a reserved message type', { esm_class: 0x04 }],
    [0x43, 'a header that is longer than the text', part(header(200, 0, 3, 9, 2, 1), 'a')],
    [0x43, 'a part behind the last one', part(header(5, 0, 3, 9, 2, 3), 'a')],
    [0x43, 'part 0', part(header(5, 0, 3, 9, 2, 0), 'a')],
    [0x45, 'an octet above 127 in the default alphabet', { short_message: Buffer.from([0xe9]) }],
    [0x45, 'an escape at the end', { short_message: Buffer.from([0x61, 0x1b]) }],
    [0x45, 'half a surrogate pair', { data_coding: 8, short_message: ucs2('a\ud83d') }],
    [0x45, 'a reserved data_coding', { data_coding: 0x20 }],
    [0x48, 'a reserved type of number of the sender', { source_addr_ton: 7 }],
    [0x49, 'a reserved numbering plan of the sender', { source_addr_npi: 2 }],
    [0x50, 'a reserved type of number of the recipient', { dest_addr_ton: 7 }],
    [0x51, 'a reserved numbering plan of the recipient', { dest_addr_npi: 2 }],
    [0x54, 'a reserved replace_if_present_flag', { replace_if_present_flag: 2 }],
    [0x61, 'a time without a month', { schedule_delivery_time: '260030120000000+' }],
    [0x62, 'a validity of 25 hours', { validity_period: '000000250000000R' }],
    [0x62, 'a validity of ten characters', { validity_period: Buffer.from('0000000102') }],
    [0x63, 'a reserved stored text', { sm_default_msg_id: 255 }],
    [0xc1, 'two texts', { message_payload: Buffer.from('a') }],
    [0xc1, 'a TLV of receipts', { receipted_message_id: '1' }],
    [0xc3, 'a segment without its number', { sar_msg_ref_num: 7, sar_total_segments: 2 }],
    [0xc4, 'segment 3 of 2', { sar_msg_ref_num: 7, sar_total_segments: 2, sar_segment_seqnum: 3 }],
  ]
  it.each(refused)('is refused with %i: %s', async (status, _, fields) => {
    const { ask } = await bound()
    const answer = await ask('submit_sm', { ...ACCEPTED, ...fields })
    expect([answer.command, answer.command_status]).toEqual(['submit_sm_resp', status])
    expect(smsc.refused()).toBe(1)
    expect(operator.statistics()['parts']).toBe(0)
    // The session continues.
    expect((await ask('submit_sm', ACCEPTED)).command_status).toBe(0)
  })
})

describe('a bind', () => {
  const refused: ReadonlyArray<readonly [status: number, name: string, fields: Fields]> = [
    [0x0f, 'a system_id of 16 characters', { system_id: 'a'.repeat(16) }],
    [0x0e, 'a password of nine characters', { password: 'a'.repeat(9) }],
    [0x53, 'a system_type of 13 characters', { system_type: 'a'.repeat(13) }],
    [0x0d, 'a reserved version', { interface_version: 0x50 }],
    [0x0d, 'an address_range of 41 characters', { address_range: 'a'.repeat(41) }],
    [0x0d, 'a reserved type of number', { addr_ton: 7 }],
  ]
  it.each(refused)('is refused with %i: %s', async (status, _, fields) => {
    const { ask } = connect()
    const answer = await ask('bind_transceiver', { ...CREDENTIALS, ...fields })
    expect([answer.command, answer.command_status]).toEqual(['bind_transceiver_resp', status])
    // Wrong credentials get the first two statuses, too, and do not count.
    expect(smsc.refused()).toBe(1)
  })
})

describe('the state of the session', () => {
  it('allows only a bind at first, and no second one', async () => {
    const client = connect()
    for (const command of ['submit_sm', 'enquire_link', 'unbind']) {
      const answer = await client.ask(command, command === 'submit_sm' ? ACCEPTED : {})
      expect([answer.command, answer.command_status]).toEqual([`${command}_resp`, 0x04])
    }
    expect((await client.ask('bind_transmitter', CREDENTIALS)).command_status).toBe(0)
    expect((await client.ask('bind_receiver', CREDENTIALS)).command_status).toBe(0x05)
  })

  it('allows no submit of a receiver', async () => {
    const { ask } = await bound('bind_receiver')
    expect((await ask('submit_sm', ACCEPTED)).command_status).toBe(0x04)
  })

  it('allows no more submits without an answer than the window', async () => {
    operator.setBehaviour({ submit_delay_ms: 300, window: 2 })
    const { ask } = await bound()
    const answers = await Promise.all([1, 2, 3].map(() => ask('submit_sm', ACCEPTED)))
    expect(answers.map(({ command_status }) => command_status)).toEqual([0, 0, 0x58])
  })
})

/** A client that writes octets and collects the answers in hexadecimal. */
const connectRaw = async () => {
  const socket = connectSocket(port, '127.0.0.1')
  clients.push(socket)
  await once(socket, 'connect')
  const closed = new Promise<void>((resolve) => void socket.once('close', () => resolve()))
  let received = ''
  socket.on('error', () => {})
  socket.on('data', (octets: Buffer) => (received += octets.toString('hex')))
  return {
    closed,
    write: (...words: ReadonlyArray<string>) =>
      socket.write(Buffer.from(words.join('').replaceAll(' ', ''), 'hex')),
    /** Waits for this number of octets. */
    octets: async (count: number): Promise<string> => {
      while (received.length < 2 * count) await once(socket, 'data')
      const taken = received.slice(0, 2 * count)
      received = received.slice(2 * count)
      return taken
    },
  }
}

describe('octets', () => {
  /** bind_transceiver: hub, secret, no system type, version 0x34, no addresses. */
  const BIND = '00000020 00000009 00000000 00000001 68756200 73656372657400 00 34 00 00 00'
  /** bind_transceiver_resp with the system id `simulator`. */
  const BOUND = '0000001a80000009000000000000000173696d756c61746f7200'
  const boundRaw = async () => {
    const client = await connectRaw()
    client.write(BIND)
    expect(await client.octets(26)).toBe(BOUND)
    return client
  }

  it.each([
    ['a command_length below 16', '0000000f 00000015 00000000 00000002'],
    ['a command_length of 16 MB', '00ffffff 00000004 00000000 00000002'],
  ])('with %s get generic_nack, and the connection ends', async (_, octets) => {
    const client = await boundRaw()
    client.write(octets)
    expect(await client.octets(16)).toBe('00000010800000000000000200000000')
    await client.closed
  })

  it('with an unknown command_id get generic_nack', async () => {
    const client = await boundRaw()
    client.write('00000010 00000999 00000000 00000002')
    expect(await client.octets(16)).toBe('00000010800000000000000300000002')
  })

  it.each(['00000000', '80000001'])('with the sequence number %s get generic_nack', async (sequence) => {
    const client = await boundRaw()
    client.write('00000010 00000015 00000000', sequence)
    expect(await client.octets(16)).toBe(`0000001080000000000000ff${sequence}`)
  })

  it('with the sequence number of a request without an answer are refused', async () => {
    operator.setBehaviour({ submit_delay_ms: 300 })
    const client = await boundRaw()
    const submit =
      '0000002f 00000004 00000000 00000005 00 05 00 48554200 01 01 373930303132333435363700 00 00 00 00 00 00 00 00 00'
    client.write(submit, '00', submit, '00')
    expect(await client.octets(16)).toBe('0000001080000004000000ff00000005')
  })

  it('with a command_status in a request are refused', async () => {
    const client = await boundRaw()
    client.write('00000010 00000015 00000001 00000002')
    expect(await client.octets(16)).toBe('0000001080000015000000ff00000002')
  })

  it.each([
    ['that end before the fields', 0x02, '00 05 00 48554200 01 01'],
    ['without the NUL of a text', 0x0b, '00 05 00 48554200 01 01 3739303031'],
    [
      'with a text that is longer than the PDU',
      0x01,
      '00 05 00 48554200 01 01 3700 00 00 00 00 00 00 00 00 00 09 61',
    ],
    ['with half a TLV', 0xc0, '00 05 00 48554200 01 01 3700 00 00 00 00 00 00 00 00 00 01 61 0204'],
    [
      'with a TLV beyond the end',
      0xc0,
      '00 05 00 48554200 01 01 3700 00 00 00 00 00 00 00 00 00 01 61 0204 0002 00',
    ],
    [
      'with a short integer TLV',
      0xc2,
      '00 05 00 48554200 01 01 3700 00 00 00 00 00 00 00 00 00 01 61 0204 0001 00',
    ],
  ])('%s are refused with %i', async (_, status, body) => {
    const client = await boundRaw()
    const octets = Buffer.from(body.replaceAll(' ', ''), 'hex')
    client.write((16 + octets.length).toString(16).padStart(8, '0'), '00000004 00000000 00000002', body)
    expect(await client.octets(16)).toBe(
      `00000010800000040000${status.toString(16).padStart(4, '0')}00000002`,
    )
  })
})
