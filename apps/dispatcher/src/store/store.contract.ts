/** What every adapter of the dispatcher's store must do. The messages of these tests are in shard 3. */
import { assert, describe, it } from '@effect/vitest'
import { encodeId, type Mode, type OptOut, type ReasonCode, type Status } from '@hub/domain'
import { topicNames } from '@hub/kafka'
import { Context, Effect, type Layer } from 'effect'
import type { ReadModelMessage } from '../shard/message.ts'
import { DispatcherStore, type InboundRecord, type RecipientWord } from './store.port.ts'

const TOPICS = topicNames()

export interface ProjectedRow {
  /** UUID. */
  readonly uuid: string
  /** Recipient hash. */
  readonly recipient: string
  readonly status: Status
  readonly reason: ReasonCode | null
}

/** The tables behind the store: what others write there, and what the store has written. */
export class TestTables extends Context.Service<
  TestTables,
  {
    /** A message of the class `otp` with one attempt, as the projector writes it. */
    readonly addMessage: (row: ProjectedRow) => Effect.Effect<void>
    /** An id of the operator `http`, given to a message (UUID). */
    readonly addOperatorId: (operatorId: string, message: string) => Effect.Effect<void>
    /** The projector has applied the records of the shard before this position. */
    readonly setPosition: (topic: string, shard: number, position: number) => Effect.Effect<void>
    /** Hub staff opt a recipient out. */
    readonly optOut: (recipient: string, at: number) => Effect.Effect<void>
    readonly readOptOut: (recipient: string) => Effect.Effect<OptOut | null>
    /** The weight of an account (UUID). */
    readonly setWeight: (account: string, mode: Mode, weight: number) => Effect.Effect<void>
    /** The ids of the stored inbound messages of a recipient. */
    readonly readInbound: (recipient: string) => Effect.Effect<ReadonlyArray<string>>
  }
>()('TestTables') {}

export const uuid = (n: number): string => `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
export const id = (n: number): string => encodeId('msg', uuid(n))
export const recipientOf = (n: number): string => n.toString(16).padStart(64, '0')

const AT = Date.parse('2026-11-21T12:00:00.000Z')
export const word = (n: number, what: 'stop' | 'start', position: number): RecipientWord => ({
  recipient: recipientOf(n),
  word: what,
  keyword: what,
  id: `record-${n}-${position}`,
  position,
  receivedAt: AT + position,
})

const message = (n: number, status: Status, reason: ReasonCode | null = null, recipient = 7) =>
  Effect.flatMap(TestTables, ({ addMessage }) =>
    addMessage({ uuid: uuid(n), recipient: recipientOf(recipient), status, reason }),
  )
const operatorId = (n: number, given: string) =>
  Effect.flatMap(TestTables, ({ addOperatorId }) => addOperatorId(given, uuid(n)))
const position = (topic: string, next: number) =>
  Effect.flatMap(TestTables, ({ setPosition }) => setPosition(topic, 3, next))
const optOut = (n: number) => Effect.flatMap(TestTables, ({ readOptOut }) => readOptOut(recipientOf(n)))

/** A question about a report that was read at log offset 0. */
const ask = { operator: 'http', reference: null, recipient: null, shard: 3, logOffset: 0 }
const idOf = (answer: ReadModelMessage | 'notFound' | null) =>
  answer === null || answer === 'notFound' ? answer : answer.id

export const dispatcherStoreContract = <E>(
  name: string,
  layer: Layer.Layer<DispatcherStore | TestTables, E>,
): void => {
  const check = (what: string, test: Effect.Effect<void, unknown, DispatcherStore | TestTables>) =>
    it.live(what, () => test.pipe(Effect.provide(layer)))

  describe(`the look-ups of the dispatcher, ${name}`, () => {
    check(
      'answer only after the projector has passed the offsets of lane and log',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* message(10, 'accepted')
        yield* message(11, 'sent')
        const sentOrFinal = store.sentOrFinal(
          [10, 11, 12].map((n) => ({ id: id(n), shard: 3, lane: 1, laneOffset: 5, logOffset: 8 })),
        )
        assert.deepStrictEqual(yield* sentOrFinal, [null, null, null])
        yield* position(TOPICS.acceptedService, 5)
        yield* position(TOPICS.messages, 8)
        assert.deepStrictEqual(yield* sentOrFinal, [null, null, null], 'position 5 is the next to be applied')
        yield* position(TOPICS.acceptedService, 6)
        assert.deepStrictEqual(yield* sentOrFinal, [false, true, false])
        yield* position(TOPICS.messages, 7)
        assert.deepStrictEqual(yield* sentOrFinal, [null, null, null])
      }),
    )

    check(
      'find the message of a report by our reference or by the operator id',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* message(20, 'expired', 'dlr_timeout_local')
        yield* operatorId(20, 'o1')
        yield* operatorId(20, 'o2')
        const found = yield* store.reportedOn([
          { ...ask, operatorId: 'o2' },
          { ...ask, operatorId: 'whatever', reference: id(20) },
          { ...ask, operatorId: 'o3' },
          { ...ask, operatorId: 'o1', operator: 'another' },
          { ...ask, operatorId: 'o1', reference: id(21) },
        ])
        assert.deepStrictEqual(found.map(idOf), [id(20), id(20), 'notFound', 'notFound', 'notFound'])
        assert.deepInclude(found[0], {
          reason: 'dlr_timeout_local',
          operator: 'http',
          class: 'otp',
          attempts: 1,
        })
        const [first] = found as ReadonlyArray<ReadModelMessage>
        assert.sameMembers([...(first?.operatorIds ?? [])], ['o1', 'o2'])
      }),
    )

    check(
      'find the message of a report, or nobody, after the projector has passed the log offset',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* message(50, 'expired', 'dlr_timeout_local')
        yield* operatorId(50, 'o50')
        yield* position(TOPICS.messages, 99)
        const questions = [
          { ...ask, operatorId: 'o50', logOffset: 100 },
          { ...ask, operatorId: 'o51', logOffset: 100 },
          { ...ask, operatorId: 'o50', logOffset: 99 },
          { ...ask, operatorId: 'o51', logOffset: 99 },
        ]
        const answers = Effect.map(store.reportedOn(questions), (found) => found.map(idOf))
        assert.deepStrictEqual(yield* answers, [null, null, id(50), 'notFound'])
        yield* position(TOPICS.messages, 100)
        assert.deepStrictEqual(yield* answers, [id(50), 'notFound', id(50), 'notFound'])
      }),
    )

    check(
      'distinguish messages with a reused operator id by their recipient',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* message(40, 'sent')
        yield* message(41, 'sent', null, 9)
        yield* operatorId(40, 'reused')
        yield* operatorId(41, 'reused')
        const reused = { ...ask, operatorId: 'reused' }
        const found = yield* store.reportedOn([
          { ...reused, recipient: recipientOf(7) },
          { ...reused, recipient: recipientOf(9) },
          { ...reused, recipient: 'ab'.repeat(32) },
          { ...reused, recipient: null },
          { ...reused, reference: id(40), recipient: recipientOf(9) },
        ])
        assert.deepStrictEqual(found.map(idOf), [id(40), id(41), 'notFound', id(41), 'notFound'])
      }),
    )

    check(
      'find the recipients of messages',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* message(30, 'sent')
        yield* operatorId(30, 'o30')
        const found = yield* store.recipients([
          { operator: 'http', operatorId: 'x', reference: id(30), recipient: null },
          { operator: 'http', operatorId: 'o30', reference: null, recipient: null },
          { operator: 'http', operatorId: 'x', reference: id(32), recipient: null },
          { operator: 'http', operatorId: 'x', reference: 'not one of ours', recipient: null },
        ])
        assert.deepStrictEqual(found, [recipientOf(7), recipientOf(7), null, null])
      }),
    )
  })

  describe(`opt-outs by words of recipients, ${name}`, () => {
    // Rules: OPT-1
    check(
      'are recorded and lifted in the order of the words, in one round and over several',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        assert.deepStrictEqual(yield* store.applyWords([]), [])
        assert.deepStrictEqual(
          yield* store.applyWords([
            word(1, 'stop', 3),
            word(2, 'start', 4),
            word(1, 'start', 5),
            word(1, 'stop', 6),
          ]),
          ['recorded', 'unchanged', 'lifted', 'recorded'],
        )
        assert.deepStrictEqual(yield* optOut(1), { source: 'inbound', createdAt: AT + 6 })
        assert.deepStrictEqual(yield* store.applyWords([word(1, 'start', 7)]), ['lifted'])
        assert.isNull(yield* optOut(1))
      }),
    )

    check(
      'do not return when old words are read again',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        const words = [word(3, 'stop', 0), word(3, 'start', 1)]
        yield* store.applyWords(words)
        assert.deepStrictEqual(yield* store.applyWords([words[0]!]), ['repeated'])
        assert.deepStrictEqual(yield* store.applyWords(words), ['repeated', 'repeated'])
        assert.isNull(yield* optOut(3))
      }),
    )

    check(
      'recorded by hub staff are lifted only by later words',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* (yield* TestTables).optOut(recipientOf(4), AT + 10)
        assert.deepStrictEqual(yield* store.applyWords([word(4, 'start', 5)]), ['unchanged'])
        assert.deepStrictEqual(yield* store.applyWords([word(4, 'start', 20), word(4, 'stop', 21)]), [
          'lifted',
          'recorded',
        ])
        assert.deepInclude(yield* optOut(4), { source: 'inbound' })
      }),
    )

    check(
      'follow the newest word when two processes apply the same words at once',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        const words = Array.from({ length: 9 }, (_, i) => word(5, i % 2 === 0 ? 'stop' : 'start', i))
        const others = Array.from({ length: 9 }, (_, i) => word(6, i % 2 === 0 ? 'start' : 'stop', i))
        const rounds = Array.from({ length: 6 }, (_, i) =>
          store.applyWords(i % 2 === 0 ? [...words, ...others] : [...others, ...words]),
        )
        yield* Effect.all(rounds, { concurrency: 'unbounded' })
        assert.isNotNull(yield* optOut(5))
        assert.isNull(yield* optOut(6))
      }),
    )
  })

  describe(`inbound messages and weights, ${name}`, () => {
    check(
      'store an inbound message once',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        const inbound = (n: number): InboundRecord => ({
          id: uuid(n),
          recipient: recipientOf(60),
          operator: 'http',
          serviceAddress: '2442',
          receivedAt: AT + n,
          content: null,
        })
        yield* store.storeInbound([])
        yield* store.storeInbound([inbound(1), inbound(2)])
        yield* store.storeInbound([inbound(2), inbound(3)])
        const stored = yield* (yield* TestTables).readInbound(recipientOf(60))
        assert.sameMembers([...stored], [uuid(1), uuid(2), uuid(3)])
      }),
    )

    check(
      'read the accounts with a weight of their own',
      Effect.gen(function* () {
        const store = yield* DispatcherStore
        yield* (yield* TestTables).setWeight(uuid(70), 'live', 7)
        const found = (yield* store.weights).filter(({ account }) => account === encodeId('acc', uuid(70)))
        assert.deepStrictEqual(found, [{ account: encodeId('acc', uuid(70)), mode: 'live', weight: 7 }])
      }),
    )
  })
}
