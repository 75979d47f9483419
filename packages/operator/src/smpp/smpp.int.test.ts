import type { AddressInfo } from 'node:net'
import { assert, describe, it } from '@effect/vitest'
import { Effect, Exit, Fiber, Logger, Metric, Redacted, References, Scope } from 'effect'
import { eventually, faultProxy, makeCertificateAuthority, movableHost, SILENT_FAULTS } from '@hub/testkit'
import { createServer } from 'smpp'
import * as splitSms from 'split-sms'
import { operatorContract, submissionOf } from '../port.contract.ts'
import {
  type InboundMessage,
  type Operator,
  type OperatorAnswer,
  type OperatorReport,
  ReportSink,
  ReportsNotStored,
  type UnreadableDelivery,
} from '../port.ts'
import { SMPP_DEFAULTS, type SmppSettings } from './settings.ts'
import { makeSmppOperator } from './smpp.ts'
import {
  type Connection,
  type Handler,
  type Handlers,
  makeTestSmsc,
  receiptOf,
  type TestSmsc,
} from './testing/test-smsc.ts'

const mayWrite = () => true
const until = <A>(check: () => A) => Effect.promise(() => eventually(check))

interface Stored {
  readonly reports: Array<OperatorReport>
  readonly inbound: Array<InboundMessage>
  readonly answers: Array<OperatorAnswer | UnreadableDelivery>
  /** The number of next writes that fail. */
  failures: number
  attempts: number
}

const collectingSink = () => {
  const stored: Stored = { reports: [], inbound: [], answers: [], failures: 0, attempts: 0 }
  const attempt = (write: () => void) =>
    Effect.suspend(() => {
      stored.attempts++
      if (stored.failures-- > 0) return Effect.fail(new ReportsNotStored({ detail: 'down' }))
      return Effect.sync(write)
    })
  const sink = ReportSink.of({
    store: (reports) => attempt(() => void stored.reports.push(...reports)),
    storeInbound: (messages) => attempt(() => void stored.inbound.push(...messages)),
    keepAnswers: (answers) => void stored.answers.push(...answers),
  })
  return { stored, sink }
}

const FAST: Partial<SmppSettings> = {
  binds: 1,
  reconnect: { firstMs: 5, longestMs: 50 },
  retryMs: 20,
  // A busy machine may need time to bind and to answer.
  holdMs: 20_000,
  responseDeadlineMs: 20_000,
  stallMs: 20_000,
  enquireDeadlineMs: 20_000,
}

const operatorAt = (
  port: number,
  sink: ReportSink['Service'],
  more: Partial<SmppSettings> = {},
  url = `smpp://hub@127.0.0.1:${port}`,
  loggers: ReadonlyArray<Logger.Logger<unknown, void>> = [],
) =>
  makeSmppOperator({
    ...SMPP_DEFAULTS,
    ...FAST,
    url: new URL(url),
    password: Redacted.make('secret'),
    ...more,
  }).pipe(Effect.provideService(ReportSink, sink), Effect.provide(Logger.layer(loggers)))

/** Starts an SMSC and an operator, and collects what the operator stores. */
const startOperator = (handlers: Handlers = {}, more: Partial<SmppSettings> = {}) =>
  Effect.gen(function* () {
    const smsc = yield* makeTestSmsc(handlers)
    const { sink, stored } = collectingSink()
    const operator = yield* operatorAt(smsc.port, sink, more)
    return { smsc, operator, stored, sink }
  })

operatorContract(
  'smpp',
  Effect.gen(function* () {
    let id = 0
    const { operator, stored } = yield* startOperator({
      submit_sm: (connection, pdu) => {
        id++
        connection.answer(pdu, 0, { message_id: String(id) })
        connection.send('deliver_sm', receiptOf(String(id)))
      },
    })
    return {
      operator,
      reports: () => stored.reports,
      reported: (wanted) => Effect.promise(() => eventually(() => stored.reports.find(wanted))),
    }
  }),
)

/**
 * An SMSC of another implementation (npm `smpp`) that refuses parts of more than 140 octets with
 * ESME_RINVMSGLEN (SMPP 3.4, 5.1.3). npm `split-sms` counts the septets.
 */
const strictForeignSmsc = Effect.gen(function* () {
  const texts: Array<string> = []
  const server = createServer((session) => {
    session.on('error', () => {})
    session.on('bind_transceiver', (pdu) => session.send(pdu.response()))
    session.on('enquire_link', (pdu) => session.send(pdu.response()))
    session.on('unbind', (pdu) => session.send(pdu.response()))
    session.on('submit_sm', (pdu) => {
      const { message, udh } = pdu['short_message'] as { udh?: ReadonlyArray<Buffer>; message: string }
      const header = udh === undefined ? 0 : udh.reduce((sum, element) => sum + element.length, 1)
      // 3GPP TS 23.040, 9.2.3.24: packed septets begin at a multiple of seven bits after the header.
      const octets =
        pdu['data_coding'] === 8
          ? header + 2 * message.length
          : Math.ceil(((Math.ceil((header * 8) / 7) + splitSms.split(message).bytes) * 7) / 8)
      if (octets > 140) return session.send(pdu.response({ command_status: 0x01 }))
      texts.push(message)
      return session.send(pdu.response({ message_id: `foreign-${texts.length}` }))
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, '127.0.0.1', () => resume(Effect.void))),
    () => Effect.sync(() => void server.close()),
  )
  return { port: (server.address() as AddressInfo).port, texts }
})

describe('a strict SMSC of another implementation', () => {
  for (const [name, text, parts, encoding] of [
    // 156 + 6 septets of the text around it.
    ['162 septets', `Code: ${'a'.repeat(156)}`, 2, 'gsm7'],
    ['500 Cyrillic letters', 'я'.repeat(500), 8, 'ucs2'],
    ['an extension character at the end of a full part', `${'a'.repeat(152)}€${'b'.repeat(152)}`, 3, 'gsm7'],
    ['surrogate pairs at the ends of parts', `я${'😀'.repeat(70)}`, 3, 'ucs2'],
  ] as const) {
    it.live(`accepts every part of ${name}`, () =>
      Effect.gen(function* () {
        const { port, texts } = yield* strictForeignSmsc
        const operator = yield* operatorAt(port, collectingSink().sink)
        const outcomes = yield* operator.submit([submissionOf('msg_a', { text, parts, encoding })], mayWrite)
        assert.deepStrictEqual(outcomes, [
          { type: 'accepted', operatorIds: Array.from({ length: parts }, (_, i) => `foreign-${i + 1}`) },
        ])
        assert.strictEqual(texts.join(''), text)
      }).pipe(Effect.scoped),
    )
  }
})

describe('the SMPP operator on real sockets', () => {
  it.live('submits a message with the fields of SMPP', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator()
      const [outcome] = yield* operator.submit([submissionOf('msg_a', { validitySeconds: 3725 })], mayWrite)
      assert.deepStrictEqual(outcome, { type: 'accepted', operatorIds: ['1'] })
      const { pdu } = smsc.submits()[0]!
      const fields = [
        'source_addr_ton',
        'source_addr_npi',
        'dest_addr_ton',
        'dest_addr_npi',
        'esm_class',
      ] as const
      assert.deepStrictEqual(fields.map(pdu.number), [5, 0, 1, 1, 0])
      assert.strictEqual(pdu.text('source_addr'), 'HUB')
      assert.strictEqual(pdu.text('destination_addr'), '79001234567')
      assert.strictEqual(pdu.number('registered_delivery'), 1)
      assert.strictEqual(pdu.text('validity_period'), '000000010205000R')
      assert.strictEqual(Buffer.from(pdu.octets('short_message')!).toString(), 'Code 1234')
      const bind = smsc.requests[0]!.pdu
      assert.strictEqual(bind.command, 'bind_transceiver')
      assert.strictEqual(bind.text('system_id'), 'hub')
      assert.strictEqual(bind.text('password'), 'secret')
      assert.strictEqual(bind.number('interface_version'), 0x34)
    }).pipe(Effect.scoped),
  )

  it.live('splits a message into the parts that the domain counts, and uses one bind for all', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator({}, { binds: 2 })
      const text = `${'я'.repeat(66)}😀${'я'.repeat(66)}`
      const [outcome] = yield* operator.submit(
        [submissionOf('msg_a', { text, parts: 3, encoding: 'ucs2' })],
        mayWrite,
      )
      assert.deepStrictEqual(outcome, { type: 'accepted', operatorIds: ['1', '2', '3'] })
      const read = smsc.submits().map(({ pdu }) => {
        assert.deepStrictEqual(
          (['esm_class', 'data_coding', 'registered_delivery'] as const).map(pdu.number),
          [0x40, 8, 1],
        )
        return new TextDecoder('utf-16be').decode(pdu.octets('short_message')!.subarray(6))
      })
      assert.strictEqual(read.join(''), text)
      assert.strictEqual(new Set(smsc.submits().map(({ connection }) => connection)).size, 1)
    }).pipe(Effect.scoped),
  )

  it.live('distributes submissions over the binds, each within its window', () =>
    Effect.gen(function* () {
      const waiting: Array<() => void> = []
      const { smsc, operator } = yield* startOperator(
        {
          submit_sm: (connection, pdu) => {
            waiting.push(() => connection.answer(pdu, 0, { message_id: String(pdu.sequence) }))
          },
        },
        { binds: 2, window: 3 },
      )
      yield* until(() => smsc.requests.filter(({ pdu }) => pdu.command === 'bind_transceiver').length === 2)
      const batch = Array.from({ length: 10 }, (_, i) => submissionOf(`msg_${i}`))
      const fiber = yield* Effect.forkChild(operator.submit(batch, mayWrite))
      yield* until(() => waiting.length === 6)
      for (const connection of smsc.connections) {
        assert.lengthOf(
          smsc.submits().filter((submit) => submit.connection === connection),
          3,
        )
      }
      // Each answer makes room for exactly one more submission.
      waiting.shift()!()
      yield* until(() => smsc.submits().length === 7)
      while (smsc.submits().length < 10) {
        const before = smsc.submits().length
        waiting.shift()!()
        yield* until(() => smsc.submits().length === before + 1)
      }
      for (const answer of waiting) answer()
      const outcomes = yield* Fiber.join(fiber)
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
    }).pipe(Effect.scoped),
  )

  it.live('submits urgent messages before others that are not started', () =>
    Effect.gen(function* () {
      let bind = () => {}
      const { smsc, operator } = yield* startOperator(
        { bind_transceiver: (connection, pdu) => void (bind = () => connection.answer(pdu)) },
        { window: 1 },
      )
      yield* until(() => smsc.requests.length === 1)
      const batch = ['a', 'b', 'c'].map((text) => submissionOf(text, { text }))
      const codes = ['x', 'y'].map((text) => submissionOf(text, { text, urgent: true }))
      const others = yield* Effect.forkChild(operator.submit(batch, mayWrite))
      yield* Effect.yieldNow
      const first = yield* Effect.forkChild(operator.submit(codes, mayWrite))
      yield* Effect.yieldNow
      bind()
      const outcomes = [...(yield* Fiber.join(first)), ...(yield* Fiber.join(others))]
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
      assert.deepStrictEqual(
        smsc.submits().map(({ pdu }) => Buffer.from(pdu.octets('short_message')!).toString()),
        ['x', 'y', 'a', 'b', 'c'],
      )
    }).pipe(Effect.scoped),
  )

  it.live(
    'checks the lease when it writes, and writes nothing more of a batch after the lease has ended',
    () =>
      Effect.gen(function* () {
        const { smsc, operator } = yield* startOperator()
        let asked = 0
        const batch = ['msg_a', 'msg_b', 'msg_c'].map((reference) => submissionOf(reference))
        // The lease is checked for each message until the first refusal.
        const outcomes = yield* operator.submit(batch, () => ++asked !== 2)
        assert.deepStrictEqual(
          outcomes.map(({ type }) => type),
          ['accepted', 'notWritten', 'notWritten'],
        )
        assert.strictEqual(asked, 2)
        yield* operator.submit([submissionOf('msg_d')], mayWrite)
        assert.lengthOf(smsc.submits(), 2)
      }).pipe(Effect.scoped),
  )

  it.live('checks the lease after a wait, not at the call of submit', () =>
    Effect.gen(function* () {
      const hold: Array<() => void> = []
      const { smsc, operator } = yield* startOperator(
        {
          submit_sm: (connection, pdu) => {
            hold.push(() => connection.answer(pdu, 0, { message_id: String(pdu.sequence) }))
          },
        },
        { window: 1 },
      )
      const first = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], mayWrite))
      yield* until(() => hold.length === 1)
      let holds = true
      const second = yield* Effect.forkChild(operator.submit([submissionOf('msg_b')], () => holds))
      yield* Effect.yieldNow
      holds = false
      hold[0]!()
      assert.strictEqual((yield* Fiber.join(first))[0]?.type, 'accepted')
      assert.deepStrictEqual(yield* Fiber.join(second), [{ type: 'notWritten' }])
      assert.lengthOf(smsc.submits(), 1)
    }).pipe(Effect.scoped),
  )

  it.live('reports an unknown outcome for submissions in flight when the connection is reset', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator({
        submit_sm: (connection, pdu, { submits }) => {
          if (submits().length <= 2 || submits().length > 5)
            connection.answer(pdu, 0, { message_id: String(pdu.sequence) })
          if (submits().length === 5) connection.socket.resetAndDestroy()
        },
      })
      const batch = Array.from({ length: 5 }, (_, i) => submissionOf(`msg_${i}`))
      const outcomes = yield* operator.submit(batch, mayWrite)
      // The reset may overtake the two answers.
      assert.deepStrictEqual(
        outcomes.slice(2).map(({ type }) => type),
        ['unknown', 'unknown', 'unknown'],
      )
      assert.isTrue(outcomes.slice(0, 2).every(({ type }) => type === 'accepted' || type === 'unknown'))
      // The operator binds again, and nothing is submitted twice.
      const [next] = yield* operator.submit([submissionOf('msg_next')], mayWrite)
      assert.strictEqual(next?.type, 'accepted')
      assert.lengthOf(smsc.submits(), 6)
    }).pipe(Effect.scoped),
  )

  it.live('reports an unknown outcome without an answer in time, and ends a bind without answers', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator(
        {
          submit_sm: (connection, pdu, { connections }) => {
            if (connections.indexOf(connection) > 0) connection.answer(pdu, 0, { message_id: '7' })
          },
        },
        // The answers of the second bind have to arrive in time, also on a busy machine.
        { responseDeadlineMs: 2000, maxTimeouts: 2 },
      )
      const batch = [submissionOf('msg_a'), submissionOf('msg_b')]
      assert.deepStrictEqual(yield* operator.submit(batch, mayWrite), [
        { type: 'unknown' },
        { type: 'unknown' },
      ])
      assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_c')], mayWrite), [
        { type: 'accepted', operatorIds: ['7'] },
      ])
      assert.lengthOf(smsc.connections, 2)
      assert.lengthOf(smsc.submits(), 3)
    }).pipe(Effect.scoped),
  )

  it.live('reports an unknown outcome if the answer has no id', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({ submit_sm: (connection, pdu) => connection.answer(pdu) })
      assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_a')], mayWrite), [{ type: 'unknown' }])
    }).pipe(Effect.scoped),
  )

  it.live('ends a connection without an answer to enquire_link', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator(
        { enquire_link: () => {} },
        { enquireLinkMs: 20, enquireDeadlineMs: 50 },
      )
      yield* until(() => smsc.connections.length >= 2)
      assert.isTrue(smsc.requests.some(({ pdu }) => pdu.command === 'enquire_link'))
      assert.isTrue(smsc.connections[0]!.socket.destroyed)
      assert.strictEqual(operator.name, 'smpp')
    }).pipe(Effect.scoped),
  )

  it.live('keeps a connection whose SMSC answers enquire_link, and answers enquire_link itself', () =>
    Effect.gen(function* () {
      const { smsc } = yield* startOperator({}, { enquireLinkMs: 10 })
      yield* until(() => smsc.requests.filter(({ pdu }) => pdu.command === 'enquire_link').length >= 3)
      const [connection] = smsc.connections
      const sequence = connection!.send('enquire_link')
      yield* until(() =>
        connection!.received.some(
          (pdu) => pdu.command === 'enquire_link_resp' && pdu.sequence === sequence && pdu.status === 0,
        ),
      )
      assert.lengthOf(smsc.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('keeps an idle connection whose SMSC needs three seconds for enquire_link', () =>
    Effect.gen(function* () {
      const late: Array<NodeJS.Timeout> = []
      const { smsc } = yield* startOperator(
        {
          enquire_link: (connection, pdu) => void late.push(setTimeout(() => connection.answer(pdu), 3000)),
        },
        { enquireLinkMs: 50, enquireDeadlineMs: SMPP_DEFAULTS.enquireDeadlineMs },
      )
      yield* Effect.addFinalizer(() => Effect.sync(() => late.forEach(clearTimeout)))
      // The second request comes after the answer to the first one.
      yield* until(() => smsc.requests.filter(({ pdu }) => pdu.command === 'enquire_link').length >= 2)
      assert.lengthOf(smsc.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('stores deliveries that come before the answer to the bind, and stays bound', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator(
        {
          bind_transceiver: (connection, pdu) => {
            for (let id = 1; id <= 12; id++) connection.send('deliver_sm', receiptOf(String(id)))
            connection.answer(pdu, 0, { system_id: 'smsc' })
          },
        },
        { deliverWindow: 10 },
      )
      const statuses = () =>
        smsc.connections[0]?.received.flatMap(({ command, status }) =>
          command === 'deliver_sm_resp' ? [status] : [],
        ) ?? []
      yield* until(() => statuses().length === 12)
      // What does not fit into the window gets a temporary error, so that the SMSC repeats it.
      assert.deepStrictEqual(
        statuses().toSorted((a, b) => a - b),
        [...Array.from({ length: 9 }, () => 0), 100, 100, 100],
      )
      assert.deepStrictEqual(
        stored.reports.map(({ operatorId }) => operatorId),
        Array.from({ length: 9 }, (_, i) => String(i + 1)),
      )
      assert.lengthOf(smsc.connections, 1)
      assert.isFalse(smsc.connections[0]!.socket.destroyed)
    }).pipe(Effect.scoped),
  )

  it.live('refuses messages for now without an SMSC', () =>
    Effect.gen(function* () {
      const { sink } = collectingSink()
      const gone = yield* Effect.scoped(Effect.map(makeTestSmsc(), ({ port }) => port))
      const operator = yield* operatorAt(gone, sink, { holdMs: 30 })
      assert.isFalse(yield* operator.isReady)
      const outcomes = yield* operator.submit([submissionOf('msg_a'), submissionOf('msg_b')], mayWrite)
      assert.deepStrictEqual(
        outcomes.map(({ type }) => type),
        ['refused', 'refused'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('binds again after a refused bind, and holds a message until then', () =>
    Effect.gen(function* () {
      let binds = 0
      const { smsc, operator } = yield* startOperator(
        { bind_transceiver: (connection, pdu) => connection.answer(pdu, ++binds < 3 ? 0x0d : 0) },
        { holdMs: 20_000 },
      )
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'accepted')
      assert.isTrue(yield* operator.isReady)
      assert.strictEqual(binds, 3)
      assert.lengthOf(smsc.connections, 3)
    }).pipe(Effect.scoped),
  )

  it.live('waits long before the next bind after a refused password', () =>
    Effect.gen(function* () {
      const annotations: Array<Readonly<Record<string, unknown>>> = []
      const logger = Logger.make(({ fiber, logLevel }) => {
        annotations.push({ ...fiber.getRef(References.CurrentLogAnnotations), logLevel })
      })
      const smsc = yield* makeTestSmsc({
        bind_transceiver: (connection, pdu) => connection.answer(pdu, 0x0e),
      })
      const { sink } = collectingSink()
      const operator = yield* operatorAt(
        smsc.port,
        sink,
        { reconnect: { firstMs: 1, longestMs: 60_000 } },
        undefined,
        [logger],
      )
      assert.isFalse(operator.refusesSettings?.())
      yield* until(() => annotations.length === 1)
      assert.isTrue(operator.refusesSettings?.())
      const [line] = annotations
      assert.deepInclude(line, { logLevel: 'Error', why: 'refused', status: 'ESME_RINVPASWD' })
      assert.isAtLeast(line!['retryInMs'] as number, 30_000)
    }).pipe(Effect.scoped),
  )

  it.live('no longer refuses the settings when it has accepted them once', () =>
    Effect.gen(function* () {
      let status = 0x0e
      let refused = 0
      const smsc = yield* makeTestSmsc({
        bind_transceiver: (connection, pdu) => {
          if (status !== 0) refused++
          connection.answer(pdu, status)
        },
      })
      const { sink } = collectingSink()
      const operator = yield* operatorAt(smsc.port, sink, { reconnect: { firstMs: 1, longestMs: 50 } })
      yield* until(() => operator.refusesSettings?.() === true)
      status = 0
      yield* until(() => Effect.runSync(operator.isReady))
      assert.isFalse(operator.refusesSettings?.())
      status = 0x0e
      refused = 0
      smsc.connections.at(-1)?.socket.destroy()
      yield* until(() => refused > 1)
      assert.isFalse(operator.refusesSettings?.())
    }).pipe(Effect.scoped),
  )

  it.live('binds a transmitter and a receiver if configured', () =>
    Effect.gen(function* () {
      const { smsc, operator, stored } = yield* startOperator({}, { bindMode: 'transmitter_receiver' })
      yield* until(() => smsc.requests.length === 2)
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'accepted')
      const by = (command: string) => smsc.requests.find(({ pdu }) => pdu.command === command)!.connection
      assert.strictEqual(smsc.submits()[0]!.connection, by('bind_transmitter'))
      const { received, send } = by('bind_receiver')
      send('deliver_sm', receiptOf('1'))
      // Some SMSCs send receipts as data_sm.
      send('data_sm', { receipted_message_id: '2', message_state: 5, source_addr: '79001234567' })
      yield* until(() => received.length === 2)
      assert.sameDeepMembers(
        received.map(({ command, status }) => [command, status]),
        [
          ['data_sm_resp', 0],
          ['deliver_sm_resp', 0],
        ],
      )
      assert.sameDeepMembers(
        stored.reports.map(({ operatorId, outcome, to }) => [operatorId, outcome, to]),
        [
          ['1', 'delivered', '+79001234567'],
          ['2', 'undelivered', '+79001234567'],
        ],
      )
      assert.isTrue(yield* operator.isReady)
    }).pipe(Effect.scoped),
  )

  it.live('binds over TLS only to an SMSC with a trusted certificate for its name', () =>
    Effect.gen(function* () {
      const authority = yield* Effect.promise(makeCertificateAuthority)
      const issued = (hosts: ReadonlyArray<string>) => Effect.promise(() => authority.issue(hosts))
      const { sink } = collectingSink()
      const good = yield* makeTestSmsc({}, yield* issued(['localhost']))
      const operator = yield* operatorAt(
        good.port,
        sink,
        { ca: authority.pem },
        `smpps://hub@localhost:${good.port}`,
      )
      const outcomes = yield* operator.submit(
        Array.from({ length: 200 }, (_, i) => submissionOf(`msg_${i}`)),
        mayWrite,
      )
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))

      const other = yield* makeTestSmsc({}, yield* issued(['elsewhere.example']))
      const url = `smpps://hub@localhost:${other.port}`
      const wrongName = yield* operatorAt(other.port, sink, { ca: authority.pem, holdMs: 50 }, url)
      assert.strictEqual((yield* wrongName.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'refused')
      const withoutCa = yield* operatorAt(
        good.port,
        sink,
        { holdMs: 50 },
        `smpps://hub@localhost:${good.port}`,
      )
      assert.strictEqual((yield* withoutCa.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'refused')
      assert.lengthOf(other.requests, 0)
    }).pipe(Effect.scoped),
  )

  it.live('ends only the connection when it receives an invalid PDU', () =>
    Effect.gen(function* () {
      const hostile = [
        Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
        Buffer.from('00000004', 'hex'),
        Buffer.from('7fffffff0000000500000000', 'hex'),
        // A receipt with a TLV beyond its end.
        Buffer.from('00000016800000040000000000000001041e', 'hex'),
        Buffer.concat([
          Buffer.from('00000014000000050000000000000001', 'hex'),
          Buffer.from('04270009', 'hex'),
        ]),
      ]
      const { smsc, operator } = yield* startOperator()
      for (const [i, octets] of hostile.entries()) {
        yield* until(() => smsc.requests.filter(({ pdu }) => pdu.command === 'bind_transceiver').length > i)
        smsc.connections[i]!.socket.write(octets)
        // The octets that follow have no effect.
        smsc.connections[i]!.socket.write(Buffer.alloc(70_000))
        yield* until(() => smsc.connections.length > i + 1)
      }
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'accepted')
    }).pipe(Effect.scoped),
  )

  it.live('answers an unknown command with generic_nack, and ignores answers without a request', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator()
      yield* operator.submit([submissionOf('msg_a')], mayWrite)
      const { received, socket } = smsc.connections[0]!
      socket.write(Buffer.from('0000001000000999000000000000002a', 'hex'))
      yield* until(() => received.length === 1)
      assert.deepStrictEqual(
        received.map(({ command, sequence, status }) => [command, sequence, status]),
        [['generic_nack', 42, 3]],
      )
      socket.write(Buffer.from('00000010800000040000000000abcdef', 'hex'))
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], mayWrite))[0]?.type, 'accepted')
      assert.lengthOf(smsc.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('unbinds at the end, after the answers to submissions in flight', () =>
    Effect.gen(function* () {
      const hold: Array<() => void> = []
      const smsc = yield* makeTestSmsc({
        submit_sm: (connection, pdu) => {
          hold.push(() => connection.answer(pdu, 0, { message_id: '9' }))
        },
      })
      const { sink } = collectingSink()
      const scope = yield* Scope.make()
      const operator = yield* operatorAt(smsc.port, sink, { closeMs: 20_000 }).pipe(Scope.provide(scope))
      const fiber = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], mayWrite))
      yield* until(() => hold.length === 1)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* until(() => {
        // It has not unbound yet.
        return smsc.requests.every(({ pdu }) => pdu.command !== 'unbind')
      })
      hold[0]!()
      assert.deepStrictEqual(yield* Fiber.join(fiber), [{ type: 'accepted', operatorIds: ['9'] }])
      yield* Fiber.join(closing)
      assert.strictEqual(smsc.requests.at(-1)?.pdu.command, 'unbind')
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], mayWrite))[0]?.type, 'refused')
      assert.lengthOf(smsc.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('waits for a limited time at the end', () =>
    Effect.gen(function* () {
      const smsc = yield* makeTestSmsc({ submit_sm: () => {} })
      const { sink } = collectingSink()
      const scope = yield* Scope.make()
      const operator = yield* operatorAt(smsc.port, sink, { closeMs: 50 }).pipe(Scope.provide(scope))
      const fiber = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], mayWrite))
      yield* until(() => smsc.submits().length === 1)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [{ type: 'unknown' }])
    }).pipe(Effect.scoped),
  )

  it.live('accepts an unbind of the SMSC, and binds again', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator()
      yield* operator.submit([submissionOf('msg_a')], mayWrite)
      const [connection] = smsc.connections
      connection!.send('unbind')
      yield* until(() => connection!.received.some(({ command }) => command === 'unbind_resp'))
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], mayWrite))[0]?.type, 'accepted')
      assert.lengthOf(smsc.connections, 2)
    }).pipe(Effect.scoped),
  )
})

/** Submits one message after the other until one is accepted. */
const untilAccepted = (operator: Operator) =>
  Effect.promise(() =>
    eventually(async () => {
      const [outcome] = await Effect.runPromise(operator.submit([submissionOf('msg_again')], mayWrite))
      return outcome?.type === 'accepted'
    }),
  )

const QUICK: Partial<SmppSettings> = { stallMs: 300, enquireDeadlineMs: 1500, connectDeadlineMs: 1000 }

describe('a bind that does not answer', () => {
  it.live('takes no further submits while its oldest one waits, and the other bind continues', () =>
    Effect.gen(function* () {
      let stalled: Connection | null = null
      const { smsc, operator } = yield* startOperator(
        {
          submit_sm: (connection, pdu) => {
            stalled ??= connection
            if (connection !== stalled) connection.answer(pdu, 0, { message_id: String(pdu.sequence) })
          },
        },
        { binds: 2, stallMs: 100 },
      )
      yield* until(() => smsc.requests.length === 2)
      const first = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], mayWrite))
      // A stalled bind is asked whether it is alive. It answers, so it stays.
      yield* until(() => smsc.requests.some(({ pdu }) => pdu.command === 'enquire_link'))
      const batch = Array.from({ length: 20 }, (_, i) => submissionOf(`msg_${i}`))
      const outcomes = yield* operator.submit(batch, mayWrite)
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
      assert.lengthOf(
        smsc.submits().filter(({ connection }) => connection === stalled),
        1,
      )
      assert.lengthOf(smsc.connections, 2)
      yield* Fiber.interrupt(first)
    }).pipe(Effect.scoped),
  )

  it.live('holds back no message with a part on it', () =>
    Effect.gen(function* () {
      let stalled: Connection | null = null
      const { operator } = yield* startOperator(
        {
          submit_sm: (connection, pdu) => {
            stalled ??= connection
            if (connection !== stalled) connection.answer(pdu, 0, { message_id: String(pdu.sequence) })
          },
        },
        // Two of the three parts find no room.
        { binds: 2, window: 1, stallMs: 100 },
      )
      const long = submissionOf('msg_long', { text: 'я'.repeat(150), parts: 3, encoding: 'ucs2' })
      const first = yield* Effect.forkChild(operator.submit([long], mayWrite))
      yield* Effect.yieldNow
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], mayWrite))[0]?.type, 'accepted')
      yield* Fiber.interrupt(first)
    }).pipe(Effect.scoped),
  )

  for (const [name, begin] of SILENT_FAULTS) {
    it.live(`is closed and opened again: ${name}`, () =>
      Effect.gen(function* () {
        const smsc = yield* makeTestSmsc()
        const proxy = yield* faultProxy(`smpp://hub@127.0.0.1:${smsc.port}`)
        const { sink } = collectingSink()
        const operator = yield* operatorAt(proxy.port, sink, { ...QUICK, binds: 2 })
        yield* until(() => smsc.requests.length === 2)
        yield* untilAccepted(operator)
        proxy.hold()
        begin(proxy)
        const [outcome] = yield* operator.submit([submissionOf('msg_lost')], mayWrite)
        assert.notStrictEqual(outcome?.type, 'accepted')
        proxy.release()
        yield* untilAccepted(operator)
      }).pipe(Effect.scoped),
    )
  }

  it.live('is opened again at the new address of the name', () =>
    Effect.gen(function* () {
      const smsc = yield* makeTestSmsc()
      const host = yield* movableHost(`smpp://hub@127.0.0.1:${smsc.port}`, 'smsc.test')
      const { sink } = collectingSink()
      const operator = yield* operatorAt(0, sink, QUICK, host.url)
      yield* untilAccepted(operator)
      host.first.hold()
      host.first.drop('both')
      host.move()
      yield* untilAccepted(operator)
      assert.isAbove(host.second.accepted(), 0)
    }).pipe(Effect.scoped),
  )

  it.live('in time because of 60 ms of delay in each direction stays open', () =>
    Effect.gen(function* () {
      const smsc = yield* makeTestSmsc()
      const proxy = yield* faultProxy(`smpp://hub@127.0.0.1:${smsc.port}`)
      const { sink } = collectingSink()
      const operator = yield* operatorAt(proxy.port, sink, {
        enquireLinkMs: 50,
        stallMs: 2000,
        enquireDeadlineMs: 10_000,
      })
      yield* untilAccepted(operator)
      proxy.delay(60)
      for (let i = 0; i < 10; i++) {
        assert.strictEqual(
          (yield* operator.submit([submissionOf(`msg_${i}`)], mayWrite))[0]?.type,
          'accepted',
        )
      }
      assert.lengthOf(smsc.connections, 1)
    }).pipe(Effect.scoped),
  )
})

describe('the raw answers', () => {
  it.live('are kept for each part, whatever they say', () =>
    Effect.gen(function* () {
      let answers = 0
      const { operator, stored } = yield* startOperator({
        submit_sm: (connection, pdu) =>
          connection.answer(pdu, answers++ === 2 ? 0x0a : 0, { message_id: `id-${answers}` }),
      })
      yield* operator.submit([submissionOf('msg_a', { text: 'x'.repeat(200), parts: 2 })], mayWrite)
      yield* operator.submit([submissionOf('msg_b')], mayWrite)
      assert.deepStrictEqual(
        stored.answers.map(({ operator: name, reference }) => `${name} ${reference}`),
        ['smpp msg_a', 'smpp msg_a', 'smpp msg_b'],
      )
      assert.include(Buffer.from(stored.answers[0]!.raw).toString('latin1'), 'id-1')
      // The status of a refusal.
      assert.strictEqual(Buffer.from(stored.answers[2]!.raw).readUInt32BE(8), 0x0a)
      const [first] = stored.answers
      assert.match(first?.reference === null ? '' : (first?.recipient ?? ''), /^[0-9a-f]{64}$/u)
    }).pipe(Effect.scoped),
  )
})

describe('an operator that refuses', () => {
  const statuses =
    (...sequence: ReadonlyArray<number>): Handler =>
    (connection, pdu, { submits }) => {
      const status = sequence[submits().length - 1] ?? 0
      connection.answer(pdu, status, status === 0 ? { message_id: `id-${submits().length}` } : {})
    }
  const long = submissionOf('msg_long', { text: 'x'.repeat(400), parts: 3 })

  for (const status of [0x58, 0x14]) {
    it.live(`because of the rate (${status}) has the message refused, and says why`, () =>
      Effect.gen(function* () {
        const { smsc, operator } = yield* startOperator({ submit_sm: statuses(status) })
        assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_a')], mayWrite), [
          { type: 'refused', submitted: true, retryAfterMs: 250, throttledParts: 1 },
        ])
        // Only the dispatcher pauses, for all binds and all dispatchers together.
        const outcomes = yield* operator.submit([submissionOf('msg_b'), submissionOf('msg_c')], mayWrite)
        assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
        assert.lengthOf(smsc.submits(), 3)
      }).pipe(Effect.scoped),
    )
  }

  it.live('for longer than a lifetime has only that message refused', () =>
    Effect.gen(function* () {
      const { operator, smsc } = yield* startOperator({ bind_transceiver: () => {} }, { holdMs: 60_000 })
      const [outcome] = yield* operator.submit([submissionOf('msg_b', { validitySeconds: 1 })], mayWrite)
      if (outcome?.type !== 'refused') return assert.fail('the refusal is temporary')
      assert.isTrue(outcome.affectsOnlyThis)
      assert.isFalse(outcome.submitted)
      assert.lengthOf(smsc.submits(), 0)
    }).pipe(Effect.scoped),
  )

  it.live('for now for another reason leads to a retry after the configured wait', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({ submit_sm: statuses(0x08) }, { retryMs: 700 })
      assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_a')], mayWrite), [
        { type: 'refused', submitted: true, retryAfterMs: 700 },
      ])
    }).pipe(Effect.scoped),
  )

  it.live('because it does not know the bind gets a new one', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator({ submit_sm: statuses(0x04) })
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'refused')
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'accepted')
      const [before, after] = smsc.submits()
      assert.notStrictEqual(before!.connection, after!.connection)
      assert.isTrue(
        smsc.requests.some(
          ({ connection, pdu }) => connection === before!.connection && pdu.command === 'unbind',
        ),
      )
    }).pipe(Effect.scoped),
  )

  it.live('permanently has the message rejected with the reason of its code', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({ submit_sm: statuses(0x0a, 0x45, 0x0400) })
      const batch = ['msg_a', 'msg_b', 'msg_c', 'msg_d'].map((reference) => submissionOf(reference))
      assert.deepStrictEqual(yield* operator.submit(batch, mayWrite), [
        { type: 'rejected', reason: 'spam_filter_sender' },
        { type: 'rejected', reason: 'operator_rejected' },
        { type: 'rejected', reason: 'operator_rejected' },
        { type: 'accepted', operatorIds: ['id-4'] },
      ])
    }).pipe(Effect.scoped),
  )

  it.live('with a generic_nack has the message refused', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({
        submit_sm: ({ socket }, pdu) => {
          const nack = Buffer.from('00000010800000000000005800000000', 'hex')
          nack.writeUInt32BE(pdu.sequence, 12)
          socket.write(nack)
        },
      })
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], mayWrite))[0]?.type, 'refused')
    }).pipe(Effect.scoped),
  )

  it.live('is counted, like one that accepts', () =>
    Effect.gen(function* () {
      const counted = (result: string) =>
        Effect.map(Metric.snapshot, (metrics) =>
          metrics.reduce(
            (sum, metric) =>
              metric.type === 'Counter' &&
              metric.id === 'hub_smpp_submitted_parts_total' &&
              metric.attributes?.['result'] === result
                ? sum + Number(metric.state.count)
                : sum,
            0,
          ),
        )
      const before = [yield* counted('accepted'), yield* counted('rejected')]
      const { operator } = yield* startOperator({ submit_sm: statuses(0x45) })
      yield* operator.submit([submissionOf('msg_a'), submissionOf('msg_b'), submissionOf('msg_c')], mayWrite)
      assert.deepStrictEqual(
        [yield* counted('accepted'), yield* counted('rejected')],
        [before[0]! + 2, before[1]! + 1],
      )
    }).pipe(Effect.scoped),
  )

  it.live('a later part for now gets only that part again', () =>
    Effect.gen(function* () {
      const { smsc, operator } = yield* startOperator({ submit_sm: statuses(0, 0x58, 0x08, 0x58) })
      let throttled = 0
      const outcomes = yield* operator.submit([long], mayWrite, () => {
        throttled++
      })
      assert.deepStrictEqual(outcomes, [
        { type: 'accepted', operatorIds: ['id-1', 'id-6', 'id-5'], throttledParts: 2 },
      ])
      assert.strictEqual(throttled, 2, 'it is told before the outcome')
      const parts = smsc.submits().map(({ pdu }) => pdu.octets('short_message')![5])
      assert.deepStrictEqual(parts.slice(0, 3), [1, 2, 3])
      assert.lengthOf(parts, 6)
      assert.notInclude(parts.slice(3), 1)
    }).pipe(Effect.scoped),
  )

  it.live('a later part until the lifetime ends has the message rejected', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({
        submit_sm: statuses(0, ...Array.from({ length: 1000 }, () => 0x08)),
      })
      const outcomes = yield* operator.submit([{ ...long, validitySeconds: 1 }], mayWrite)
      assert.deepStrictEqual(outcomes, [{ type: 'rejected', reason: 'operator_rejected' }])
    }).pipe(Effect.scoped),
  )

  it.live('all parts for now gets the whole message again', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({ submit_sm: statuses(0x58, 0x58, 0x58) })
      assert.strictEqual((yield* operator.submit([long], mayWrite))[0]?.type, 'refused')
    }).pipe(Effect.scoped),
  )

  it.live('one part permanently has the message rejected, whatever the other outcomes are', () =>
    Effect.gen(function* () {
      const { operator } = yield* startOperator({ submit_sm: statuses(0, 0x45, 0x58) })
      assert.deepStrictEqual(yield* operator.submit([long], mayWrite), [
        { type: 'rejected', reason: 'operator_rejected', throttledParts: 1 },
      ])
    }).pipe(Effect.scoped),
  )
})

describe('a delivery of the SMSC', () => {
  const answersOf = (smsc: TestSmsc, n = 0) =>
    smsc.connections[n]!.received.filter(({ command }) => command === 'deliver_sm_resp').map(
      ({ status }) => status,
    )

  it.live('is reported even if it is repeated or arrives before the answer to its submission', () =>
    Effect.gen(function* () {
      const { smsc, operator, stored } = yield* startOperator(
        {
          submit_sm: (connection, pdu) => {
            const decimal = String(255 + pdu.sequence)
            connection.send('deliver_sm', receiptOf(decimal))
            connection.send('deliver_sm', receiptOf(decimal))
            connection.answer(pdu, 0, { message_id: (255 + pdu.sequence).toString(16).toUpperCase() })
          },
        },
        { idFormat: 'hexadecimal_answer' },
      )
      const [outcome] = yield* operator.submit([submissionOf('msg_a')], mayWrite)
      if (outcome?.type !== 'accepted') return assert.fail('it was accepted')
      yield* until(() => answersOf(smsc).length === 2)
      assert.deepStrictEqual(
        stored.reports.map(({ operator: name, operatorId, outcome: what, reference, to }) => [
          name,
          operatorId,
          what,
          reference,
          to,
        ]),
        [0, 1].map(() => ['smpp', outcome.operatorIds[0], 'delivered', null, '+79001234567']),
      )
      assert.include(Buffer.from(stored.reports[0]!.raw!).toString('latin1'), 'stat:DELIVRD')
    }).pipe(Effect.scoped),
  )

  it.live('is acknowledged after it is stored, else it gets a temporary error', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator()
      yield* until(() => smsc.requests.length === 1)
      stored.failures = 1
      smsc.connections[0]!.send('deliver_sm', receiptOf('1'))
      yield* until(() => answersOf(smsc).length === 1)
      assert.deepStrictEqual(answersOf(smsc), [0x64])
      assert.lengthOf(stored.reports, 0)
      smsc.connections[0]!.send('deliver_sm', receiptOf('1'))
      yield* until(() => answersOf(smsc).length === 2)
      assert.deepStrictEqual(answersOf(smsc), [0x64, 0])
      assert.lengthOf(stored.reports, 1)
    }).pipe(Effect.scoped),
  )

  it.live('gets a temporary error if it is not stored in time', () =>
    Effect.gen(function* () {
      const smsc = yield* makeTestSmsc()
      const sink = ReportSink.of({
        store: () => Effect.never,
        storeInbound: () => Effect.never,
        keepAnswers: () => {},
      })
      yield* operatorAt(smsc.port, sink, { sinkDeadlineMs: 30 })
      yield* until(() => smsc.requests.length === 1)
      smsc.connections[0]!.send('deliver_sm', receiptOf('1'))
      yield* until(() => answersOf(smsc).length === 1)
      assert.deepStrictEqual(answersOf(smsc), [0x64])
    }).pipe(Effect.scoped),
  )

  it.live('is acknowledged and dropped if it has no effect or cannot be read', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator()
      yield* until(() => smsc.requests.length === 1)
      const { send } = smsc.connections[0]!
      send('deliver_sm', receiptOf('1', { stat: 'ENROUTE' }))
      send('deliver_sm', { ...receiptOf('1'), esm_class: 0x20 })
      send('deliver_sm', receiptOf('1', { stat: 'FANCY' }))
      send('deliver_sm', { esm_class: 4, short_message: Buffer.from('hello') })
      send('deliver_sm', { source_addr: '79001234567', source_addr_ton: 1, data_coding: 4 })
      send('deliver_sm', { source_addr: 'BANK', source_addr_ton: 5, short_message: Buffer.from('hello') })
      yield* until(() => answersOf(smsc).length === 6)
      assert.isTrue(answersOf(smsc).every((status) => status === 0))
      assert.strictEqual(stored.attempts, 0)
    }).pipe(Effect.scoped),
  )

  it.live('that is not marked as a receipt is an inbound message with any content', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator()
      yield* until(() => smsc.requests.length === 1)
      const { send } = smsc.connections[0]!
      const from = { source_addr: '79001234567', source_addr_ton: 1, destination_addr: '7900' }
      send('deliver_sm', { ...receiptOf('1'), ...from, esm_class: 0 })
      const stop = { ...from, data_coding: 8, short_message: Buffer.from('СТОП', 'utf16le').swap16() }
      stored.failures = 0
      send('deliver_sm', stop)
      send('deliver_sm', { ...from, message_payload: Buffer.from('STOP please') })
      yield* until(() => answersOf(smsc).length === 3)
      assert.lengthOf(stored.reports, 0)
      assert.deepStrictEqual(
        stored.inbound.map(({ from: writer, serviceAddress, text }) => [
          writer,
          serviceAddress,
          text.slice(0, 11),
        ]),
        [
          ['+79001234567', '7900', 'id:1 sub:00'],
          ['+79001234567', '7900', 'СТОП'],
          ['+79001234567', '7900', 'STOP please'],
        ],
      )
      assert.strictEqual(new Set(stored.inbound.map(({ operatorId }) => operatorId)).size, 3)
    }).pipe(Effect.scoped),
  )

  it.live('of a multipart text is stored as one message, and all parts are acknowledged then', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator()
      yield* until(() => smsc.requests.length === 1)
      const part = (n: number, text: string) => ({
        source_addr: '79001234567',
        source_addr_ton: 1,
        destination_addr: '7900',
        esm_class: 0x40,
        short_message: Buffer.concat([Buffer.from([5, 0, 3, 77, 2, n]), Buffer.from(text)]),
      })
      const { send } = smsc.connections[0]!
      send('deliver_sm', part(2, 'world'))
      // Answers come in order, so this answer proves that the first part was read.
      const sequence = send('enquire_link')
      yield* until(() => smsc.connections[0]!.received.some((pdu) => pdu.sequence === sequence))
      assert.lengthOf(answersOf(smsc), 0)
      send('deliver_sm', part(1, 'hello '))
      yield* until(() => answersOf(smsc).length === 2)
      assert.deepStrictEqual(
        stored.inbound.map(({ text }) => text),
        ['hello world'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('of a multipart text is stored alone if the other parts do not come', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator({}, { reassemblyMs: 1 })
      yield* until(() => smsc.requests.length === 1)
      smsc.connections[0]!.send('deliver_sm', {
        source_addr: '79001234567',
        source_addr_ton: 1,
        destination_addr: '7900',
        sar_msg_ref_num: 5,
        sar_total_segments: 2,
        sar_segment_seqnum: 2,
        short_message: Buffer.from('world'),
      })
      yield* until(() => answersOf(smsc).length === 1)
      assert.deepStrictEqual(
        stored.inbound.map(({ text }) => text),
        ['world'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('keeps its id when it is repeated', () =>
    Effect.gen(function* () {
      const ids: Array<string> = []
      const smsc = yield* makeTestSmsc()
      const sink = ReportSink.of({
        store: () => Effect.void,
        keepAnswers: () => {},
        storeInbound: ([message]) => {
          ids.push(message!.operatorId)
          return ids.length === 1 ? Effect.fail(new ReportsNotStored({ detail: 'down' })) : Effect.void
        },
      })
      yield* operatorAt(smsc.port, sink)
      yield* until(() => smsc.requests.length === 1)
      const stop = { source_addr: '79001234567', source_addr_ton: 1, short_message: Buffer.from('STOP') }
      for (let n = 1; n <= 3; n++) {
        smsc.connections[0]!.send('deliver_sm', stop)
        yield* until(() => answersOf(smsc).length === n)
      }
      assert.strictEqual(ids[1], ids[0])
      // The same text after its acknowledgement is another message.
      assert.notStrictEqual(ids[2], ids[0])
    }).pipe(Effect.scoped),
  )

  it.live('is not read while too many deliveries wait to be stored', () =>
    Effect.gen(function* () {
      const release: Array<() => void> = []
      let taken = 0
      let most = 0
      let waiting = 0
      const sink = ReportSink.of({
        store: (reports) =>
          Effect.callback<void>((resume) => {
            waiting += reports.length
            most = Math.max(most, waiting)
            release.push(() => {
              waiting -= reports.length
              taken += reports.length
              resume(Effect.void)
            })
          }),
        storeInbound: () => Effect.void,
        keepAnswers: () => {},
      })
      const smsc = yield* makeTestSmsc()
      yield* operatorAt(smsc.port, sink, { deliverWindow: 10, sinkDeadlineMs: 60_000 })
      yield* until(() => smsc.requests.length === 1)
      for (let i = 0; i < 500; i++) smsc.connections[0]!.send('deliver_sm', receiptOf(String(i)))
      yield* until(() => waiting === 10)
      while (taken < 500) {
        yield* until(() => release.length > 0)
        release.shift()!()
      }
      yield* until(() => answersOf(smsc).length === 500)
      assert.strictEqual(most, 10)
    }).pipe(Effect.scoped),
  )

  it.live('does not fill the memory if the SMSC does not read the answers', () =>
    Effect.gen(function* () {
      const { smsc, stored } = yield* startOperator({}, { responseDeadlineMs: 200 })
      yield* until(() => smsc.requests.length === 1)
      const { send, socket } = smsc.connections[0]!
      // From now on the SMSC writes but does not read.
      socket.pause()
      const writer = setInterval(() => {
        if (!socket.destroyed && socket.writableLength < 1_000_000) {
          for (let i = 0; i < 2000; i++) send('enquire_link')
        }
      }, 1)
      yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(writer)))
      // The operator ends the connection and makes another one.
      yield* until(() => smsc.connections.length === 2)
      assert.lengthOf(stored.reports, 0)
    }).pipe(Effect.scoped),
  )
})

describe('the log', () => {
  it.live('contains no number, no text and no password', () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.make(({ cause, fiber, message }) => {
        lines.push(JSON.stringify([message, String(cause), fiber.getRef(References.CurrentLogAnnotations)]))
      })
      const smsc = yield* makeTestSmsc({
        submit_sm: (connection, pdu, { submits }) => {
          connection.answer(pdu, [0x58, 0x45][submits().length - 1] ?? 0, { message_id: '1' })
        },
      })
      const { sink } = collectingSink()
      const operator = yield* operatorAt(smsc.port, sink, {}, undefined, [logger])
      for (let i = 0; i < 4; i++) yield* operator.submit([submissionOf('msg_a')], mayWrite)
      smsc.connections[0]!.send('deliver_sm', { esm_class: 4, short_message: Buffer.from('Code 1234') })
      yield* until(() => lines.some((line) => line.includes('cannot be read')))
      assert.isAtLeast(lines.length, 4)
      for (const line of lines) assert.notMatch(line, /9001234567|Code 1234|secret/u)
    }).pipe(Effect.scoped),
  )
})
