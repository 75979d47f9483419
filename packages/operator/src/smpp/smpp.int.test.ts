import { assert, describe, it } from '@effect/vitest'
import { Effect, Exit, Fiber, Logger, Metric, Redacted, References, Scope } from 'effect'
import { eventually, makeCertificateAuthority } from '@hub/testkit'
import { operatorContract, submissionOf } from '../port.contract.ts'
import { type InboundMessage, type OperatorReport, ReportSink, ReportsNotStored } from '../port.ts'
import { SMPP_DEFAULTS, type SmppSettings } from './settings.ts'
import { makeSmppOperator } from './smpp.ts'
import { type Behaviour, type Centre, type Handler, makeTestCentre, receiptOf } from './testing/centre.ts'

const yes = () => true
/** Nothing here takes long; it only bounds what hangs on a busy machine. */
const PATIENCE = { withinMs: 30_000 }

const until = <A>(check: () => A) => Effect.promise(() => eventually(check, PATIENCE))

interface Taken {
  readonly reports: Array<OperatorReport>
  readonly inbound: Array<InboundMessage>
  /** So many takings fail. */
  failures: number
  attempts: number
}

const collecting = () => {
  const taken: Taken = { reports: [], inbound: [], failures: 0, attempts: 0 }
  const attempt = (take: () => void) =>
    Effect.suspend(() => {
      taken.attempts++
      if (taken.failures-- > 0) return Effect.fail(new ReportsNotStored({ detail: 'down' }))
      return Effect.sync(take)
    })
  const sink = ReportSink.of({
    store: (reports) => attempt(() => void taken.reports.push(...reports)),
    storeInbound: (messages) => attempt(() => void taken.inbound.push(...messages)),
  })
  return { taken, sink }
}

const FAST: Partial<SmppSettings> = {
  binds: 1,
  reconnect: { baseMs: 5, maxMs: 50 },
  retryMs: 20,
  // A busy machine may take its time to bind and to answer.
  holdMs: 20_000,
  responseDeadlineMs: 20_000,
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

/** An operator, its centre, and what it told; bound when it is given. */
const world = (behaviour: Behaviour = {}, more: Partial<SmppSettings> = {}) =>
  Effect.gen(function* () {
    const centre = yield* makeTestCentre(behaviour)
    const { sink, taken } = collecting()
    const operator = yield* operatorAt(centre.port, sink, more)
    return { centre, operator, taken, sink }
  })

operatorContract(
  'smpp',
  Effect.gen(function* () {
    let id = 0
    const { operator, taken } = yield* world({
      submit_sm: (connection, pdu) => {
        id++
        connection.answer(pdu, 0, { message_id: String(id) })
        connection.send('deliver_sm', receiptOf(String(id)))
      },
    })
    return {
      operator,
      reports: () => taken.reports,
      reported: (wanted) => Effect.promise(() => eventually(() => taken.reports.find(wanted), PATIENCE)),
    }
  }),
)

describe('the smpp operator on real sockets', () => {
  it.live('hands over what SMPP calls a message', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world()
      const [outcome] = yield* operator.submit([submissionOf('msg_a', { validitySeconds: 3725 })], yes)
      assert.deepStrictEqual(outcome, { type: 'accepted', operatorIds: ['1'] })
      const { pdu } = centre.submits()[0]!
      const fields = ['source_addr_ton', 'source_addr_npi', 'dest_addr_ton', 'dest_addr_npi', 'esm_class']
      assert.deepStrictEqual(fields.map(pdu.number), [5, 0, 1, 1, 0])
      assert.strictEqual(pdu.text('source_addr'), 'HUB')
      assert.strictEqual(pdu.text('destination_addr'), '79001234567')
      assert.strictEqual(pdu.number('registered_delivery'), 1)
      assert.strictEqual(pdu.text('validity_period'), '000000010205000R')
      assert.strictEqual(Buffer.from(pdu.octets('short_message')!).toString(), 'Code 1234')
      const bind = centre.requests[0]!.pdu
      assert.strictEqual(bind.command, 'bind_transceiver')
      assert.strictEqual(bind.text('system_id'), 'hub')
      assert.strictEqual(bind.text('password'), 'secret')
      assert.strictEqual(bind.number('interface_version'), 0x34)
    }).pipe(Effect.scoped),
  )

  it.live('cuts a message where the domain counts its parts, and keeps it on one bind', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world({}, { binds: 2 })
      const text = `${'я'.repeat(66)}😀${'я'.repeat(66)}`
      const [outcome] = yield* operator.submit(
        [submissionOf('msg_a', { text, parts: 3, encoding: 'ucs2' })],
        yes,
      )
      assert.deepStrictEqual(outcome, { type: 'accepted', operatorIds: ['1', '2', '3'] })
      const read = centre.submits().map(({ pdu }) => {
        assert.deepStrictEqual(
          ['esm_class', 'data_coding', 'registered_delivery'].map(pdu.number),
          [0x40, 8, 1],
        )
        return new TextDecoder('utf-16be').decode(pdu.octets('short_message')!.subarray(7))
      })
      assert.strictEqual(read.join(''), text)
      assert.strictEqual(new Set(centre.submits().map(({ connection }) => connection)).size, 1)
    }).pipe(Effect.scoped),
  )

  it.live('spreads submissions over the binds, each within its window', () =>
    Effect.gen(function* () {
      const waiting: Array<() => void> = []
      const { centre, operator } = yield* world(
        {
          submit_sm: (connection, pdu) => {
            waiting.push(() => connection.answer(pdu, 0, { message_id: String(pdu.sequence) }))
          },
        },
        { binds: 2, window: 3 },
      )
      yield* until(() => centre.requests.filter(({ pdu }) => pdu.command === 'bind_transceiver').length === 2)
      // A first one each, so that both are known to stand.
      const batch = Array.from({ length: 10 }, (_, i) => submissionOf(`msg_${i}`))
      const fiber = yield* Effect.forkChild(operator.submit(batch, yes))
      yield* until(() => waiting.length === 6)
      for (const connection of centre.connections) {
        assert.lengthOf(
          centre.submits().filter((submit) => submit.connection === connection),
          3,
        )
      }
      // Each answer makes room for one more, and no answer for none.
      waiting.shift()!()
      yield* until(() => centre.submits().length === 7)
      while (centre.submits().length < 10) {
        const before = centre.submits().length
        waiting.shift()!()
        yield* until(() => centre.submits().length === before + 1)
      }
      for (const answer of waiting) answer()
      const outcomes = yield* Fiber.join(fiber)
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
    }).pipe(Effect.scoped),
  )

  it.live('lets codes pass what has not begun to leave', () =>
    Effect.gen(function* () {
      let bind = () => {}
      const { centre, operator } = yield* world(
        { bind_transceiver: (connection, pdu) => void (bind = () => connection.answer(pdu)) },
        { window: 1 },
      )
      yield* until(() => centre.requests.length === 1)
      const batch = ['a', 'b', 'c'].map((text) => submissionOf(text, { text }))
      const codes = ['x', 'y'].map((text) => submissionOf(text, { text, urgent: true }))
      const others = yield* Effect.forkChild(operator.submit(batch, yes))
      yield* Effect.yieldNow
      const first = yield* Effect.forkChild(operator.submit(codes, yes))
      yield* Effect.yieldNow
      bind()
      const outcomes = [...(yield* Fiber.join(first)), ...(yield* Fiber.join(others))]
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
      assert.deepStrictEqual(
        centre.submits().map(({ pdu }) => Buffer.from(pdu.octets('short_message')!).toString()),
        ['x', 'y', 'a', 'b', 'c'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('asks for the lease when the socket is written, and writes nothing of a batch after a no', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world()
      let asked = 0
      const batch = ['msg_a', 'msg_b', 'msg_c'].map((reference) => submissionOf(reference))
      // Asked anew for each: the second answer stands for the rest.
      const outcomes = yield* operator.submit(batch, () => ++asked !== 2)
      assert.deepStrictEqual(
        outcomes.map(({ type }) => type),
        ['accepted', 'notWritten', 'notWritten'],
      )
      assert.strictEqual(asked, 2)
      yield* operator.submit([submissionOf('msg_d')], yes)
      assert.lengthOf(centre.submits(), 2)
    }).pipe(Effect.scoped),
  )

  it.live('asks for the lease again after a wait, not when it was asked to submit', () =>
    Effect.gen(function* () {
      const hold: Array<() => void> = []
      const { centre, operator } = yield* world(
        {
          submit_sm: (connection, pdu) => {
            hold.push(() => connection.answer(pdu, 0, { message_id: String(pdu.sequence) }))
          },
        },
        { window: 1 },
      )
      const first = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], yes))
      yield* until(() => hold.length === 1)
      let holds = true
      const second = yield* Effect.forkChild(operator.submit([submissionOf('msg_b')], () => holds))
      yield* Effect.yieldNow
      holds = false
      hold[0]!()
      assert.strictEqual((yield* Fiber.join(first))[0]?.type, 'accepted')
      assert.deepStrictEqual(yield* Fiber.join(second), [{ type: 'notWritten' }])
      assert.lengthOf(centre.submits(), 1)
    }).pipe(Effect.scoped),
  )

  it.live('does not know what became of what was in the window when the connection was reset', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world({
        submit_sm: (connection, pdu, { submits }) => {
          if (submits().length <= 2 || submits().length > 5)
            connection.answer(pdu, 0, { message_id: String(pdu.sequence) })
          if (submits().length === 5) connection.socket.resetAndDestroy()
        },
      })
      const batch = Array.from({ length: 5 }, (_, i) => submissionOf(`msg_${i}`))
      const outcomes = yield* operator.submit(batch, yes)
      // The reset may overtake the two answers on their way.
      assert.deepStrictEqual(
        outcomes.slice(2).map(({ type }) => type),
        ['unknown', 'unknown', 'unknown'],
      )
      assert.isTrue(outcomes.slice(0, 2).every(({ type }) => type === 'accepted' || type === 'unknown'))
      // It is bound again by itself, and nothing comes twice.
      const [next] = yield* operator.submit([submissionOf('msg_next')], yes)
      assert.strictEqual(next?.type, 'accepted')
      assert.lengthOf(centre.submits(), 6)
    }).pipe(Effect.scoped),
  )

  it.live(
    'does not know what became of what was not answered in time, and gives up a bind that is silent',
    () =>
      Effect.gen(function* () {
        const { centre, operator } = yield* world(
          {
            submit_sm: (connection, pdu, { connections }) => {
              if (connections.indexOf(connection) > 0) connection.answer(pdu, 0, { message_id: '7' })
            },
          },
          { responseDeadlineMs: 100, maxTimeouts: 2 },
        )
        const batch = [submissionOf('msg_a'), submissionOf('msg_b')]
        assert.deepStrictEqual(yield* operator.submit(batch, yes), [{ type: 'unknown' }, { type: 'unknown' }])
        assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_c')], yes), [
          { type: 'accepted', operatorIds: ['7'] },
        ])
        assert.lengthOf(centre.connections, 2)
        assert.lengthOf(centre.submits(), 3)
      }).pipe(Effect.scoped),
  )

  it.live('does not know what became of what was taken without an id', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({ submit_sm: (connection, pdu) => connection.answer(pdu) })
      assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_a')], yes), [{ type: 'unknown' }])
    }).pipe(Effect.scoped),
  )

  it.live('gives up a connection on which nobody answers whether he is there', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world(
        { enquire_link: () => {} },
        { enquireLinkMs: 20, responseDeadlineMs: 50 },
      )
      yield* until(() => centre.connections.length >= 2)
      assert.isTrue(centre.requests.some(({ pdu }) => pdu.command === 'enquire_link'))
      assert.isTrue(centre.connections[0]!.socket.destroyed)
      assert.strictEqual(operator.name, 'smpp')
    }).pipe(Effect.scoped),
  )

  it.live('keeps a connection whose centre answers, and answers it', () =>
    Effect.gen(function* () {
      const { centre } = yield* world({}, { enquireLinkMs: 10 })
      yield* until(() => centre.requests.filter(({ pdu }) => pdu.command === 'enquire_link').length >= 3)
      const [connection] = centre.connections
      const sequence = connection!.send('enquire_link')
      yield* until(() =>
        connection!.received.some(
          (pdu) => pdu.command === 'enquire_link_resp' && pdu.sequence === sequence && pdu.status === 0,
        ),
      )
      assert.lengthOf(centre.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('is refused, for a while, without a centre', () =>
    Effect.gen(function* () {
      const { sink } = collecting()
      const gone = yield* Effect.scoped(Effect.map(makeTestCentre(), ({ port }) => port))
      const operator = yield* operatorAt(gone, sink, { holdMs: 30 })
      assert.isFalse(yield* operator.isReady)
      const outcomes = yield* operator.submit([submissionOf('msg_a'), submissionOf('msg_b')], yes)
      assert.deepStrictEqual(
        outcomes.map(({ type }) => type),
        ['refused', 'refused'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('binds again after a bind that was refused, and holds a message until then', () =>
    Effect.gen(function* () {
      let binds = 0
      const { centre, operator } = yield* world(
        { bind_transceiver: (connection, pdu) => connection.answer(pdu, ++binds < 3 ? 0x0d : 0) },
        { holdMs: 20_000 },
      )
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], yes))[0]?.type, 'accepted')
      assert.isTrue(yield* operator.isReady)
      assert.strictEqual(binds, 3)
      assert.lengthOf(centre.connections, 3)
    }).pipe(Effect.scoped),
  )

  it.live('asks seldom where a password is refused: that needs a person', () =>
    Effect.gen(function* () {
      const annotations: Array<Readonly<Record<string, unknown>>> = []
      const logger = Logger.make(({ fiber, logLevel }) => {
        annotations.push({ ...fiber.getRef(References.CurrentLogAnnotations), logLevel })
      })
      const centre = yield* makeTestCentre({
        bind_transceiver: (connection, pdu) => connection.answer(pdu, 0x0e),
      })
      const { sink } = collecting()
      yield* operatorAt(centre.port, sink, { reconnect: { baseMs: 1, maxMs: 60_000 } }, undefined, [logger])
      yield* until(() => annotations.length === 1)
      const [told] = annotations
      assert.deepInclude(told, { logLevel: 'Error', why: 'refused', status: 'ESME_RINVPASWD' })
      assert.isAtLeast(told!['retryInMs'] as number, 30_000)
    }).pipe(Effect.scoped),
  )

  it.live('binds in two directions where the operator wants it', () =>
    Effect.gen(function* () {
      const { centre, operator, taken } = yield* world({}, { bindMode: 'transmitter_receiver' })
      yield* until(() => centre.requests.length === 2)
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], yes))[0]?.type, 'accepted')
      const by = (command: string) => centre.requests.find(({ pdu }) => pdu.command === command)!.connection
      assert.strictEqual(centre.submits()[0]!.connection, by('bind_transmitter'))
      const { received, send } = by('bind_receiver')
      send('deliver_sm', receiptOf('1'))
      // Some centres send receipts as data_sm.
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
        taken.reports.map(({ operatorId, outcome, to }) => [operatorId, outcome, to]),
        [
          ['1', 'delivered', '+79001234567'],
          ['2', 'undelivered', '+79001234567'],
        ],
      )
      assert.isTrue(yield* operator.isReady)
    }).pipe(Effect.scoped),
  )

  it.live('binds over TLS to a centre whose certificate is of the authority, and to no other', () =>
    Effect.gen(function* () {
      const authority = yield* Effect.promise(makeCertificateAuthority)
      const issued = (hosts: ReadonlyArray<string>) => Effect.promise(() => authority.issue(hosts))
      const { sink } = collecting()
      const good = yield* makeTestCentre({}, yield* issued(['localhost']))
      const operator = yield* operatorAt(
        good.port,
        sink,
        { ca: authority.pem },
        `smpps://hub@localhost:${good.port}`,
      )
      const outcomes = yield* operator.submit(
        Array.from({ length: 200 }, (_, i) => submissionOf(`msg_${i}`)),
        yes,
      )
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))

      const other = yield* makeTestCentre({}, yield* issued(['elsewhere.example']))
      const url = `smpps://hub@localhost:${other.port}`
      const stranger = yield* operatorAt(other.port, sink, { ca: authority.pem, holdMs: 50 }, url)
      assert.strictEqual((yield* stranger.submit([submissionOf('msg_a')], yes))[0]?.type, 'refused')
      const unknown = yield* operatorAt(good.port, sink, { holdMs: 50 }, `smpps://hub@localhost:${good.port}`)
      assert.strictEqual((yield* unknown.submit([submissionOf('msg_a')], yes))[0]?.type, 'refused')
      assert.lengthOf(other.requests, 0)
    }).pipe(Effect.scoped),
  )

  it.live('ends the connection, and nothing else, when it gets what is no PDU', () =>
    Effect.gen(function* () {
      const hostile = [
        Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
        Buffer.from('00000004', 'hex'),
        Buffer.from('7fffffff0000000500000000', 'hex'),
        // A receipt whose TLV goes beyond its end.
        Buffer.from('00000016800000040000000000000001041e', 'hex'),
        Buffer.concat([
          Buffer.from('00000014000000050000000000000001', 'hex'),
          Buffer.from('04270009', 'hex'),
        ]),
      ]
      const { centre, operator } = yield* world()
      for (const [i, octets] of hostile.entries()) {
        yield* until(() => centre.requests.filter(({ pdu }) => pdu.command === 'bind_transceiver').length > i)
        centre.connections[i]!.socket.write(octets)
        // Whatever follows is not waited for.
        centre.connections[i]!.socket.write(Buffer.alloc(70_000))
        yield* until(() => centre.connections.length > i + 1)
      }
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], yes))[0]?.type, 'accepted')
    }).pipe(Effect.scoped),
  )

  it.live('says that it does not know a command, and ignores answers that nobody asked for', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world()
      yield* operator.submit([submissionOf('msg_a')], yes)
      const { received, socket } = centre.connections[0]!
      socket.write(Buffer.from('0000001000000999000000000000002a', 'hex'))
      yield* until(() => received.length === 1)
      assert.deepStrictEqual(
        received.map(({ command, sequence, status }) => [command, sequence, status]),
        [['generic_nack', 42, 3]],
      )
      socket.write(Buffer.from('00000010800000040000000000abcdef', 'hex'))
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], yes))[0]?.type, 'accepted')
      assert.lengthOf(centre.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('unbinds at the end, after what was in flight is answered', () =>
    Effect.gen(function* () {
      const hold: Array<() => void> = []
      const centre = yield* makeTestCentre({
        submit_sm: (connection, pdu) => {
          hold.push(() => connection.answer(pdu, 0, { message_id: '9' }))
        },
      })
      const { sink } = collecting()
      const scope = yield* Scope.make()
      const operator = yield* operatorAt(centre.port, sink, { closeMs: 20_000 }).pipe(Scope.provide(scope))
      const fiber = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], yes))
      yield* until(() => hold.length === 1)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* until(() => {
        // It takes no more, and has not unbound.
        return centre.requests.every(({ pdu }) => pdu.command !== 'unbind')
      })
      hold[0]!()
      assert.deepStrictEqual(yield* Fiber.join(fiber), [{ type: 'accepted', operatorIds: ['9'] }])
      yield* Fiber.join(closing)
      assert.strictEqual(centre.requests.at(-1)?.pdu.command, 'unbind')
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], yes))[0]?.type, 'refused')
      assert.lengthOf(centre.connections, 1)
    }).pipe(Effect.scoped),
  )

  it.live('does not wait for ever at the end', () =>
    Effect.gen(function* () {
      const centre = yield* makeTestCentre({ submit_sm: () => {} })
      const { sink } = collecting()
      const scope = yield* Scope.make()
      const operator = yield* operatorAt(centre.port, sink, { closeMs: 50 }).pipe(Scope.provide(scope))
      const fiber = yield* Effect.forkChild(operator.submit([submissionOf('msg_a')], yes))
      yield* until(() => centre.submits().length === 1)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [{ type: 'unknown' }])
    }).pipe(Effect.scoped),
  )

  it.live('lets the centre unbind, and comes again', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world()
      yield* operator.submit([submissionOf('msg_a')], yes)
      const [connection] = centre.connections
      connection!.send('unbind')
      yield* until(() => connection!.received.some(({ command }) => command === 'unbind_resp'))
      assert.strictEqual((yield* operator.submit([submissionOf('msg_b')], yes))[0]?.type, 'accepted')
      assert.lengthOf(centre.connections, 2)
    }).pipe(Effect.scoped),
  )
})

describe('an operator that says no', () => {
  const statuses =
    (...told: ReadonlyArray<number>): Handler =>
    (connection, pdu, { submits }) => {
      const status = told[submits().length - 1] ?? 0
      connection.answer(pdu, status, status === 0 ? { message_id: `id-${submits().length}` } : {})
    }
  const long = submissionOf('msg_long', { text: 'x'.repeat(400), parts: 3 })

  for (const status of [0x58, 0x14]) {
    it.live(`for now, because it is too fast (${status}), gets the message again and no faster`, () =>
      Effect.gen(function* () {
        const { centre, operator } = yield* world({ submit_sm: statuses(status) })
        const [outcome] = yield* operator.submit([submissionOf('msg_a')], yes)
        if (outcome?.type !== 'refused') return assert.fail('it is for now')
        assert.isAtLeast(outcome.retryAfterMs, 50)
        assert.isAtMost(outcome.retryAfterMs, SMPP_DEFAULTS.pace.pauseMs)
        // Whoever comes now waits for the end of the pause, and is taken.
        const outcomes = yield* operator.submit([submissionOf('msg_b'), submissionOf('msg_c')], yes)
        assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
        assert.lengthOf(centre.submits(), 3)
      }).pipe(Effect.scoped),
    )
  }

  it.live('for long enough is not waited for: what was not written is refused', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world(
        { submit_sm: statuses(0x58) },
        { pace: { pauseMs: 60_000, maxPauseMs: 60_000, recoverMs: 1000 }, holdMs: 30 },
      )
      yield* operator.submit([submissionOf('msg_a')], yes)
      const [outcome] = yield* operator.submit([submissionOf('msg_b')], yes)
      if (outcome?.type !== 'refused') return assert.fail('it is for now')
      assert.isAtLeast(outcome.retryAfterMs, 30_000)
      assert.lengthOf(centre.submits(), 1)
    }).pipe(Effect.scoped),
  )

  it.live('for longer than a lifetime has that message refused, which says nothing about the others', () =>
    Effect.gen(function* () {
      const { operator } = yield* world(
        { submit_sm: statuses(0x58) },
        { pace: { pauseMs: 60_000, maxPauseMs: 60_000, recoverMs: 1000 } },
      )
      yield* operator.submit([submissionOf('msg_a')], yes)
      const [outcome] = yield* operator.submit([submissionOf('msg_b', { validitySeconds: 1 })], yes)
      if (outcome?.type !== 'refused') return assert.fail('it is for now')
      assert.isTrue(outcome.affectsOnlyThis)
    }).pipe(Effect.scoped),
  )

  it.live('for now, for another reason, gets it again after a while', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({ submit_sm: statuses(0x08) }, { retryMs: 700 })
      assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_a')], yes), [
        { type: 'refused', retryAfterMs: 700 },
      ])
    }).pipe(Effect.scoped),
  )

  it.live('because it has forgotten the bind gets another one', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world({ submit_sm: statuses(0x04) })
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], yes))[0]?.type, 'refused')
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], yes))[0]?.type, 'accepted')
      const [before, after] = centre.submits()
      assert.notStrictEqual(before!.connection, after!.connection)
      assert.isTrue(
        centre.requests.some(
          ({ connection, pdu }) => connection === before!.connection && pdu.command === 'unbind',
        ),
      )
    }).pipe(Effect.scoped),
  )

  it.live('for good is believed, with the reason of its code', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({ submit_sm: statuses(0x0a, 0x45, 0x0400) })
      const batch = ['msg_a', 'msg_b', 'msg_c', 'msg_d'].map((reference) => submissionOf(reference))
      assert.deepStrictEqual(yield* operator.submit(batch, yes), [
        { type: 'rejected', reason: 'spam_filter_sender' },
        { type: 'rejected', reason: 'operator_rejected' },
        { type: 'rejected', reason: 'operator_rejected' },
        { type: 'accepted', operatorIds: ['id-4'] },
      ])
    }).pipe(Effect.scoped),
  )

  it.live('with a generic_nack is understood', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({
        submit_sm: ({ socket }, pdu) => {
          const nack = Buffer.from('00000010800000000000005800000000', 'hex')
          nack.writeUInt32BE(pdu.sequence, 12)
          socket.write(nack)
        },
      })
      assert.strictEqual((yield* operator.submit([submissionOf('msg_a')], yes))[0]?.type, 'refused')
    }).pipe(Effect.scoped),
  )

  it.live('is counted, as are those that take', () =>
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
      const { operator } = yield* world({ submit_sm: statuses(0x45) })
      yield* operator.submit([submissionOf('msg_a'), submissionOf('msg_b'), submissionOf('msg_c')], yes)
      assert.deepStrictEqual(
        [yield* counted('accepted'), yield* counted('rejected')],
        [before[0]! + 2, before[1]! + 1],
      )
    }).pipe(Effect.scoped),
  )

  it.live('to a later part gets that part again, and only that', () =>
    Effect.gen(function* () {
      const { centre, operator } = yield* world({ submit_sm: statuses(0, 0x58, 0x08, 0x58) })
      assert.deepStrictEqual(yield* operator.submit([long], yes), [
        { type: 'accepted', operatorIds: ['id-1', 'id-5', 'id-6'] },
      ])
      const parts = centre.submits().map(({ pdu }) => pdu.octets('short_message')![6])
      assert.deepStrictEqual(parts.slice(0, 3), [1, 2, 3])
      assert.lengthOf(parts, 6)
      assert.notInclude(parts.slice(3), 1)
    }).pipe(Effect.scoped),
  )

  it.live('to a later part until the lifetime ends has rejected the message: it will never be whole', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({
        submit_sm: statuses(0, ...Array.from({ length: 1000 }, () => 0x08)),
      })
      const outcomes = yield* operator.submit([{ ...long, validitySeconds: 1 }], yes)
      assert.deepStrictEqual(outcomes, [{ type: 'rejected', reason: 'operator_rejected' }])
    }).pipe(Effect.scoped),
  )

  it.live('to all parts, for now, gets the whole message again', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({ submit_sm: statuses(0x58, 0x58, 0x58) })
      assert.strictEqual((yield* operator.submit([long], yes))[0]?.type, 'refused')
    }).pipe(Effect.scoped),
  )

  it.live('for good to one part has rejected the message, whatever became of the others', () =>
    Effect.gen(function* () {
      const { operator } = yield* world({ submit_sm: statuses(0, 0x45, 0x58) })
      assert.deepStrictEqual(yield* operator.submit([long], yes), [
        { type: 'rejected', reason: 'operator_rejected' },
      ])
    }).pipe(Effect.scoped),
  )
})

describe('what the centre delivers', () => {
  const answersOf = (centre: Centre, n = 0) =>
    centre.connections[n]!.received.filter(({ command }) => command === 'deliver_sm_resp').map(
      ({ status }) => status,
    )

  it.live('arrives before the answer to its submission, repeated, and for some parts', () =>
    Effect.gen(function* () {
      const { centre, operator, taken } = yield* world(
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
      const [outcome] = yield* operator.submit([submissionOf('msg_a')], yes)
      if (outcome?.type !== 'accepted') return assert.fail('it was accepted')
      yield* until(() => answersOf(centre).length === 2)
      assert.deepStrictEqual(
        taken.reports.map(({ operator: name, operatorId, outcome: what, reference, to }) => [
          name,
          operatorId,
          what,
          reference,
          to,
        ]),
        [0, 1].map(() => ['smpp', outcome.operatorIds[0], 'delivered', null, '+79001234567']),
      )
      assert.include(Buffer.from(taken.reports[0]!.raw!).toString('latin1'), 'stat:DELIVRD')
    }).pipe(Effect.scoped),
  )

  it.live('is acknowledged once it is taken, and else asked for again', () =>
    Effect.gen(function* () {
      const { centre, taken } = yield* world()
      yield* until(() => centre.requests.length === 1)
      taken.failures = 1
      centre.connections[0]!.send('deliver_sm', receiptOf('1'))
      yield* until(() => answersOf(centre).length === 1)
      assert.deepStrictEqual(answersOf(centre), [0x64])
      assert.lengthOf(taken.reports, 0)
      centre.connections[0]!.send('deliver_sm', receiptOf('1'))
      yield* until(() => answersOf(centre).length === 2)
      assert.deepStrictEqual(answersOf(centre), [0x64, 0])
      assert.lengthOf(taken.reports, 1)
    }).pipe(Effect.scoped),
  )

  it.live('is asked for again when it is not taken in time', () =>
    Effect.gen(function* () {
      const centre = yield* makeTestCentre()
      const sink = ReportSink.of({ store: () => Effect.never, storeInbound: () => Effect.never })
      yield* operatorAt(centre.port, sink, { sinkDeadlineMs: 30 })
      yield* until(() => centre.requests.length === 1)
      centre.connections[0]!.send('deliver_sm', receiptOf('1'))
      yield* until(() => answersOf(centre).length === 1)
      assert.deepStrictEqual(answersOf(centre), [0x64])
    }).pipe(Effect.scoped),
  )

  it.live('is acknowledged and dropped where it says nothing, or nothing that can be read', () =>
    Effect.gen(function* () {
      const { centre, taken } = yield* world()
      yield* until(() => centre.requests.length === 1)
      const { send } = centre.connections[0]!
      send('deliver_sm', receiptOf('1', { stat: 'ENROUTE' }))
      send('deliver_sm', { ...receiptOf('1'), esm_class: 0x20 })
      send('deliver_sm', receiptOf('1', { stat: 'FANCY' }))
      send('deliver_sm', { esm_class: 4, short_message: Buffer.from('hello') })
      send('deliver_sm', { source_addr: '79001234567', source_addr_ton: 1, data_coding: 4 })
      send('deliver_sm', { source_addr: 'BANK', source_addr_ton: 5, short_message: Buffer.from('hello') })
      yield* until(() => answersOf(centre).length === 6)
      assert.isTrue(answersOf(centre).every((status) => status === 0))
      assert.strictEqual(taken.attempts, 0)
    }).pipe(Effect.scoped),
  )

  it.live('is a message of somebody, and no receipt, whatever is written in it', () =>
    Effect.gen(function* () {
      const { centre, taken } = yield* world()
      yield* until(() => centre.requests.length === 1)
      const { send } = centre.connections[0]!
      const from = { source_addr: '79001234567', source_addr_ton: 1, destination_addr: '7900' }
      send('deliver_sm', { ...receiptOf('1'), ...from, esm_class: 0 })
      const stop = { ...from, data_coding: 8, short_message: Buffer.from('СТОП', 'utf16le').swap16() }
      taken.failures = 0
      send('deliver_sm', stop)
      send('deliver_sm', { ...from, message_payload: Buffer.from('STOP please') })
      yield* until(() => answersOf(centre).length === 3)
      assert.lengthOf(taken.reports, 0)
      assert.deepStrictEqual(
        taken.inbound.map(({ from: writer, serviceAddress, text }) => [
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
      assert.strictEqual(new Set(taken.inbound.map(({ operatorId }) => operatorId)).size, 3)
    }).pipe(Effect.scoped),
  )

  it.live('is one message where somebody wrote several parts, acknowledged when all are taken', () =>
    Effect.gen(function* () {
      const { centre, taken } = yield* world()
      yield* until(() => centre.requests.length === 1)
      const part = (n: number, text: string) => ({
        source_addr: '79001234567',
        source_addr_ton: 1,
        destination_addr: '7900',
        esm_class: 0x40,
        short_message: Buffer.concat([Buffer.from([5, 0, 3, 77, 2, n]), Buffer.from(text)]),
      })
      const { send } = centre.connections[0]!
      send('deliver_sm', part(2, 'world'))
      // It is answered in turn, so that the first part is known to have been read.
      const sequence = send('enquire_link')
      yield* until(() => centre.connections[0]!.received.some((pdu) => pdu.sequence === sequence))
      assert.lengthOf(answersOf(centre), 0)
      send('deliver_sm', part(1, 'hello '))
      yield* until(() => answersOf(centre).length === 2)
      assert.deepStrictEqual(
        taken.inbound.map(({ text }) => text),
        ['hello world'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('is taken as it is when the other parts do not come', () =>
    Effect.gen(function* () {
      const { centre, taken } = yield* world({}, { joinMs: 1 })
      yield* until(() => centre.requests.length === 1)
      centre.connections[0]!.send('deliver_sm', {
        source_addr: '79001234567',
        source_addr_ton: 1,
        destination_addr: '7900',
        sar_msg_ref_num: 5,
        sar_total_segments: 2,
        sar_segment_seqnum: 2,
        short_message: Buffer.from('world'),
      })
      yield* until(() => answersOf(centre).length === 1)
      assert.deepStrictEqual(
        taken.inbound.map(({ text }) => text),
        ['world'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('has the same id when it is told again', () =>
    Effect.gen(function* () {
      const ids: Array<string> = []
      const centre = yield* makeTestCentre()
      const sink = ReportSink.of({
        store: () => Effect.void,
        storeInbound: ([message]) => {
          ids.push(message!.operatorId)
          return ids.length === 1 ? Effect.fail(new ReportsNotStored({ detail: 'down' })) : Effect.void
        },
      })
      yield* operatorAt(centre.port, sink)
      yield* until(() => centre.requests.length === 1)
      const stop = { source_addr: '79001234567', source_addr_ton: 1, short_message: Buffer.from('STOP') }
      for (let n = 1; n <= 3; n++) {
        centre.connections[0]!.send('deliver_sm', stop)
        yield* until(() => answersOf(centre).length === n)
      }
      assert.strictEqual(ids[1], ids[0])
      // The same words another time are another message.
      assert.notStrictEqual(ids[2], ids[0])
    }).pipe(Effect.scoped),
  )

  it.live('is not read while too much of it waits to be written down', () =>
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
      })
      const centre = yield* makeTestCentre()
      yield* operatorAt(centre.port, sink, { deliverWindow: 10, sinkDeadlineMs: 60_000 })
      yield* until(() => centre.requests.length === 1)
      for (let i = 0; i < 500; i++) centre.connections[0]!.send('deliver_sm', receiptOf(String(i)))
      yield* until(() => waiting === 10)
      while (taken < 500) {
        yield* until(() => release.length > 0)
        release.shift()!()
      }
      yield* until(() => answersOf(centre).length === 500)
      assert.strictEqual(most, 10)
    }).pipe(Effect.scoped),
  )

  it.live('does not fill the memory of a process whose answers the centre does not read', () =>
    Effect.gen(function* () {
      const { centre, taken } = yield* world({}, { responseDeadlineMs: 200 })
      yield* until(() => centre.requests.length === 1)
      const { send, socket } = centre.connections[0]!
      // From here on the centre only writes.
      socket.pause()
      const flood = setInterval(() => {
        if (!socket.destroyed && socket.writableLength < 1_000_000) {
          for (let i = 0; i < 2000; i++) send('enquire_link')
        }
      }, 1)
      yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(flood)))
      // The connection is given up; another is made.
      yield* until(() => centre.connections.length === 2)
      assert.lengthOf(taken.reports, 0)
    }).pipe(Effect.scoped),
  )
})

describe('what is logged', () => {
  it.live('has no number, no text, no password', () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.make(({ cause, fiber, message }) => {
        lines.push(JSON.stringify([message, String(cause), fiber.getRef(References.CurrentLogAnnotations)]))
      })
      const centre = yield* makeTestCentre({
        submit_sm: (connection, pdu, { submits }) => {
          connection.answer(pdu, [0x58, 0x45][submits().length - 1] ?? 0, { message_id: '1' })
        },
      })
      const { sink } = collecting()
      const operator = yield* operatorAt(centre.port, sink, {}, undefined, [logger])
      for (let i = 0; i < 4; i++) yield* operator.submit([submissionOf('msg_a')], yes)
      centre.connections[0]!.send('deliver_sm', { esm_class: 4, short_message: Buffer.from('Code 1234') })
      yield* until(() => lines.some((line) => line.includes('cannot be read')))
      assert.isAtLeast(lines.length, 4)
      for (const line of lines) assert.notMatch(line, /9001234567|Code 1234|secret/u)
    }).pipe(Effect.scoped),
  )
})
