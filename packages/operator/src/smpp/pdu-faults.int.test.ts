/**
 * PDUs with faults that SMSCs send, in octets written by hand from SMPP 3.4, on a real socket. None of
 * them ends the session, except a PDU with an invalid length.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { assert, describe, it } from '@effect/vitest'
import { Effect, Logger, Redacted } from 'effect'
import { eventually } from '@hub/testkit'
import { submissionOf } from '../port.contract.ts'
import { type OperatorReport, ReportSink } from '../port.ts'
import { SMPP_DEFAULTS } from './settings.ts'
import { makeSmppOperator } from './smpp.ts'

/** A limit for a test that hangs. */
const until = <A>(check: () => A) => Effect.promise(() => eventually(check))

/** Octets from hexadecimal digits. The `command_length` of the standard is the first word. */
const octetsOf = (digits: string) => Buffer.from(digits.replaceAll(' ', ''), 'hex')
const pduOf = (id: string, sequence: number, body: string) => {
  const octets = octetsOf(`00000000 ${id} 00000000 00000000 ${body}`)
  octets.writeUInt32BE(octets.length)
  octets.writeUInt32BE(sequence, 12)
  return octets
}
const hex = (text: string) => Buffer.from(text).toString('hex')

/** A receipt up to `sm_length` and `short_message`: from 1/1 79001234567 to 5/0 HUB, esm_class 4. */
const RECEIPT = `00 01 01 ${hex('79001234567')}00 05 00 ${hex('HUB')}00 04 00 00 00 00 00 00 00 00`
const TEXT =
  'id:4711 sub:001 dlvrd:001 submit date:2611211300 done date:2611211301 stat:DELIVRD err:000 text:'
const receiptWith = (tlvs: string, text = TEXT) =>
  pduOf('00000005', 77, `${RECEIPT} ${text.length.toString(16).padStart(2, '0')} ${hex(text)} ${tlvs}`)
/** `deliver_sm_resp` with the status 0, the sequence number 77 and an empty `message_id`. */
const RECEIPT_ANSWER = '00000011 80000005 00000000 0000004d 00'.replaceAll(' ', '')

interface Client {
  readonly socket: Socket
  /** All octets after the bind, in hexadecimal. */
  received: string
  isEnded: boolean
}

/** An SMSC that knows only the positions of header fields. `bindAnswer`: the body of `bind_transceiver_resp`. */
const rawSmsc = (bindAnswer: string) =>
  Effect.gen(function* () {
    const clients: Array<Client> = []
    const reports: Array<OperatorReport> = []
    const server = createServer((socket) => {
      const client: Client = { socket, received: '', isEnded: false }
      let isBound = false
      socket.on('error', () => {})
      socket.on('close', () => (client.isEnded = true))
      socket.on('data', (octets: Buffer) => {
        if (!isBound) {
          isBound = true
          socket.write(pduOf('80000009', octets.readUInt32BE(12), bindAnswer))
          clients.push(client)
          return
        }
        client.received += octets.toString('hex')
        // submit_sm
        if (octets.readUInt32BE(4) === 4) {
          socket.write(pduOf('80000004', octets.readUInt32BE(12), `${hex('4711')}00`))
        }
      })
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, '127.0.0.1', () => resume(Effect.void))),
      () =>
        Effect.sync(() => {
          server.close()
          for (const { socket } of clients) socket.destroy()
        }),
    )
    const operator = yield* makeSmppOperator({
      ...SMPP_DEFAULTS,
      binds: 1,
      reconnect: { firstMs: 5, longestMs: 50 },
      // This SMSC does not answer `unbind`.
      closeMs: 10,
      url: new URL(`smpp://hub@127.0.0.1:${(server.address() as AddressInfo).port}`),
      password: Redacted.make('secret'),
    }).pipe(
      Effect.provideService(ReportSink, {
        store: (stored) => Effect.sync(() => void reports.push(...stored)),
        storeInbound: () => Effect.void,
        keepAnswers: () => {},
      }),
      Effect.provide(Logger.layer([])),
    )
    yield* until(() => clients.length === 1)
    return { clients, operator, reports, client: clients[0]! }
  })

const BIND_ANSWER = `${hex('smsc')}00`

describe('a receipt', () => {
  for (const [name, tlvs, text, id] of [
    ['with a short integer TLV at its end', '0204 0001 00', TEXT, '4711'],
    ['with an empty integer TLV at its end', '0427 0000', TEXT, '4711'],
    ['with an integer TLV of five octets', '0427 0005 0000000002', TEXT, '4711'],
    [
      'with an id in a TLV without a final NUL, before another TLV',
      `001e 0004 ${hex('0815')} 0427 0001 02`,
      'x',
      '0815',
    ],
    ['with a TLV that is longer than the PDU', '1403 00ff 00', TEXT, '4711'],
    ['with half a TLV at its end', '0427 00', TEXT, '4711'],
    ['with a TLV of the vendor', '1403 0003 010203', TEXT, '4711'],
  ] as const) {
    it.live(`${name} is reported and acknowledged, and the session continues`, () =>
      Effect.gen(function* () {
        const { client, clients, operator, reports } = yield* rawSmsc(BIND_ANSWER)
        client.socket.write(receiptWith(tlvs, text))
        yield* until(() => client.received.length >= RECEIPT_ANSWER.length)
        assert.strictEqual(client.received, RECEIPT_ANSWER)
        assert.deepStrictEqual(
          reports.map(({ operatorId, outcome, to }) => [operatorId, outcome, to]),
          [[id, 'delivered', '+79001234567']],
        )
        const [outcome] = yield* operator.submit([submissionOf('msg_a')], () => true)
        assert.deepStrictEqual(outcome, { type: 'accepted', operatorIds: ['4711'] })
        assert.lengthOf(clients, 1)
      }).pipe(Effect.scoped),
    )
  }

  it.live('that ends too early is acknowledged, and the session continues', () =>
    Effect.gen(function* () {
      const { client, clients, operator, reports } = yield* rawSmsc(BIND_ANSWER)
      client.socket.write(pduOf('00000005', 77, `00 01 01 ${hex('7900')}00 05 00 ${hex('HUB')}00 04`))
      yield* until(() => client.received.length >= RECEIPT_ANSWER.length)
      assert.strictEqual(client.received, RECEIPT_ANSWER)
      assert.lengthOf(reports, 0)
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], () => true))[0]?.type, 'accepted')
      assert.lengthOf(clients, 1)
    }).pipe(Effect.scoped),
  )
})

describe('an answer to a bind', () => {
  for (const [name, body] of [
    ['with an empty version TLV', `${BIND_ANSWER} 0210 0000`],
    ['without the final NUL of system_id', hex('smsc')],
    ['without a body', ''],
  ] as const) {
    it.live(`${name} binds`, () =>
      Effect.gen(function* () {
        const { operator } = yield* rawSmsc(body)
        assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], () => true))[0]?.type, 'accepted')
      }).pipe(Effect.scoped),
    )
  }
})

describe('a PDU with an invalid command_length', () => {
  for (const [name, length] of [
    ['too short', '0000000f'],
    ['too long', '00ffffff'],
  ] as const) {
    it.live(`${name} is answered with generic_nack, and the hub binds again`, () =>
      Effect.gen(function* () {
        const { client, clients } = yield* rawSmsc(BIND_ANSWER)
        client.socket.write(octetsOf(`${length} 00000005 00000000 00000009`))
        yield* until(() => clients.length === 2 && client.isEnded)
        // SMPP 3.4, 4.3: generic_nack with ESME_RINVCMDLEN (5.1.3). The sequence number is NULL, because
        // the PDU cannot be decoded.
        assert.strictEqual(client.received, '00000010800000000000000200000000')
      }).pipe(Effect.scoped),
    )
  }
})
