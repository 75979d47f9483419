/** How reports and inbound messages become records: recipient, encryption and failure. */
import { assert, describe, it } from '@effect/vitest'
import { recipientHash } from '@hub/domain'
import {
  decodeDeliveryReportReceived,
  decodeInboundMessageReceived,
  EventLog,
  type IncomingRecord,
  type OutgoingRecord,
  topicNames,
} from '@hub/kafka'
import { layerSimulatedKafka, SimulatedKafka } from '@hub/kafka/testing'
import type { InboundMessage, OperatorReport } from '@hub/operator'
import { RECIPIENT_SHARES, PayloadEncryption, recipientShareOf, StorageUnavailable } from '@hub/store'
import { Context, Effect, Exit, Layer, Redacted, Result, type Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { makeMetrics } from '../metrics.ts'
import { DispatcherStore } from '../store/store.port.ts'
import { DispatcherTables, memoryStore } from '../testing/memory-store.ts'
import { makeReportSink } from './report-sink.ts'

const SECRET = 'a secret of the tests, long enough for it'
const NUMBER = '+79001234567'
const HASH = recipientHash(SECRET, NUMBER)
const topics = topicNames('')

/** A readable stand-in for encryption: key, context and content. */
const payloadEncryptionOf = (state: {
  up: boolean
  period: number
  asked: number
}): PayloadEncryption['Service'] => ({
  currentKey: () => Effect.die('reports have keys of their own'),
  keyOfDay: () => Effect.die('nothing is stored here'),
  keepReady: Effect.never,
  recipientShareKeys: Effect.suspend(() => {
    state.asked++
    if (!state.up) return Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'down' }))
    return Effect.succeed(
      Array.from({ length: RECIPIENT_SHARES }, (_, share) => ({
        id: `key-${state.period}${share === recipientShareOf(HASH) ? '' : ' of others'}`,
        usableUntil: (state.period + 1) * 60_000,
        encrypt: (aad: string, plain: Uint8Array) =>
          Buffer.from(`${aad}|${Buffer.from(plain).toString('hex')}`),
      })),
    )
  }),
  decrypt: () => Effect.succeed(null),
})

const report = (more: Partial<OperatorReport> = {}): OperatorReport => ({
  operator: 'smpp',
  operatorId: 'o1',
  reference: null,
  recipient: null,
  to: NUMBER,
  outcome: 'delivered',
  reason: null,
  at: 5,
  raw: Buffer.from(`stat:DELIVRD to ${NUMBER}`),
  ...more,
})

const inbound = (more: Partial<InboundMessage> = {}): InboundMessage => ({
  operator: 'smpp',
  operatorId: 'i1',
  from: NUMBER,
  serviceAddress: '2442',
  text: 'СТОП',
  at: 7,
  raw: null,
  ...more,
})

const setup = Effect.gen(function* () {
  const keys = { up: true, period: 0, asked: 0 }
  const appended: Array<OutgoingRecord> = []
  const bus = yield* EventLog
  const sink = yield* makeReportSink({
    topics,
    hashSecret: Redacted.make(SECRET),
    recipientOf: (id) => (id === 'msg_here' ? 'recipient of msg_here' : null),
    metrics: makeMetrics(Context.empty()),
  }).pipe(
    Effect.provideService(EventLog, {
      ...bus,
      append: (records, how) =>
        Effect.tap(bus.append(records, how), () => Effect.sync(() => void appended.push(...records))),
    }),
    Effect.provideService(PayloadEncryption, payloadEncryptionOf(keys)),
    Effect.provideService(DispatcherStore, {
      ...memoryStore({ messages: new Map(), position: () => 0 }, new DispatcherTables()),
      recipients: (questions) =>
        Effect.succeed(questions.map(({ operatorId }) => (operatorId === 'projected' ? 'looked up' : null))),
    }),
  )
  const reports = () =>
    appended.map((record) =>
      Result.getOrThrow(decodeDeliveryReportReceived(record as unknown as IncomingRecord)),
    )
  const messages = () =>
    appended.map((record) =>
      Result.getOrThrow(decodeInboundMessageReceived(record as unknown as IncomingRecord)),
    )
  return { sink, keys, appended, reports, messages, bus: yield* SimulatedKafka }
})

const withBus = <A, E>(effect: Effect.Effect<A, E, EventLog | SimulatedKafka | Scope.Scope>) =>
  effect.pipe(Effect.scoped, Effect.provide(Layer.fresh(layerSimulatedKafka(2))))

describe('delivery reports', () => {
  it.effect('go to the partition of their recipient, with encrypted original data', () =>
    withBus(
      Effect.gen(function* () {
        const { appended, reports, sink } = yield* setup
        yield* sink.store([report()])
        assert.deepInclude(reports()[0], { recipient: HASH, rawKey: 'key-0', operatorId: 'o1' })
        assert.strictEqual(appended[0]?.key, HASH)
        assert.strictEqual(
          Buffer.from(reports()[0]?.rawCiphertext ?? []).toString(),
          `report:smpp:o1|${Buffer.from(`stat:DELIVRD to ${NUMBER}`).toString('hex')}`,
        )
        assert.notInclude(Buffer.from(appended[0]?.value ?? []).toString('latin1'), NUMBER)
      }),
    ),
  )

  it.effect('get their recipient from hash, number, reference or read model, in this order', () =>
    withBus(
      Effect.gen(function* () {
        const { reports, sink } = yield* setup
        yield* sink.store([
          report({ recipient: 'told' }),
          report({ reference: 'msg_here' }),
          report({ to: null, reference: 'msg_here' }),
          report({ to: null, operatorId: 'projected' }),
          report({ to: null, operatorId: 'of nobody' }),
        ])
        assert.deepStrictEqual(
          reports().map(({ recipient }) => recipient),
          ['told', HASH, 'recipient of msg_here', 'looked up'],
        )
      }),
    ),
  )

  it.effect('without original data need no key, and long original data is cut off', () =>
    withBus(
      Effect.gen(function* () {
        const { keys, reports, sink } = yield* setup
        yield* sink.store([report({ raw: null })])
        assert.strictEqual(keys.asked, 0)
        assert.deepInclude(reports()[0], { rawKey: null, rawCiphertext: null })
        yield* sink.store([report({ raw: Buffer.alloc(100_000, 0x61) })])
        assert.isBelow(reports()[1]?.rawCiphertext?.length ?? 0, 70_000)
      }),
    ),
  )

  it.effect('wait for PostgreSQL only before the first key', () =>
    withBus(
      Effect.gen(function* () {
        const { keys, reports, sink } = yield* setup
        keys.up = false
        assert.isTrue(Exit.isFailure(yield* Effect.exit(sink.store([report()]))))
        keys.up = true
        yield* sink.store([report()])
        yield* sink.store([report()])
        assert.strictEqual(keys.asked, 2, 'a key is asked for once')

        // The key has expired and PostgreSQL does not answer, so the old key is used.
        keys.up = false
        keys.period = 1
        yield* TestClock.adjust('1 minutes')
        yield* sink.store([report()])
        yield* Effect.yieldNow
        assert.strictEqual(keys.asked, 3)
        keys.up = true
        yield* sink.store([report()])
        yield* Effect.yieldNow
        yield* sink.store([report()])
        const used = reports().map(({ rawKey }) => rawKey)
        assert.deepStrictEqual(used.slice(0, 3), ['key-0', 'key-0', 'key-0'])
        assert.strictEqual(used.at(-1), 'key-1')
      }),
    ),
  )

  it.effect('are refused if Kafka does not acknowledge them', () =>
    withBus(
      Effect.gen(function* () {
        const { bus, sink } = yield* setup
        yield* bus.set('refusing')
        const failed = yield* Effect.exit(sink.store([report()]))
        const refused = yield* Effect.exit(sink.storeInbound([inbound()]))
        assert.isTrue(Exit.isFailure(failed) && Exit.isFailure(refused))
      }),
    ),
  )
})

describe('inbound messages', () => {
  it.effect('are stored with encrypted number and text', () =>
    withBus(
      Effect.gen(function* () {
        const { appended, messages, sink } = yield* setup
        yield* sink.storeInbound([inbound(), inbound({ operatorId: 'i2', raw: Buffer.from('pdu') })])
        assert.deepStrictEqual(
          messages().map(({ operatorId, recipient, payloadKey, serviceAddress }) => [
            operatorId,
            recipient,
            payloadKey,
            serviceAddress,
          ]),
          [
            ['i1', HASH, 'key-0', '2442'],
            ['i2', HASH, 'key-0', '2442'],
          ],
        )
        const [aad, hex] = Buffer.from(messages()[1]?.ciphertext ?? [])
          .toString()
          .split('|')
        assert.strictEqual(aad, 'inbound:smpp:i2')
        assert.deepStrictEqual(JSON.parse(Buffer.from(hex ?? '', 'hex').toString()), {
          from: NUMBER,
          text: 'СТОП',
          at: 7,
          raw: Buffer.from('pdu').toString('base64'),
        })
        for (const { value } of appended) assert.notInclude(Buffer.from(value).toString(), NUMBER)
      }),
    ),
  )

  it.effect('that an operator repeats become the same record', () =>
    withBus(
      Effect.gen(function* () {
        const { appended, sink } = yield* setup
        yield* sink.storeInbound([inbound()])
        yield* TestClock.adjust('1 minutes')
        yield* sink.storeInbound([inbound(), inbound({ operatorId: 'i2' })])
        assert.strictEqual(appended[0]?.id, appended[1]?.id)
        assert.notStrictEqual(appended[0]?.id, appended[2]?.id)
      }),
    ),
  )
})
