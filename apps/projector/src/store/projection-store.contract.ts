/**
 * The contract suite of the projection's store. `postgres-store.int.test.ts` runs it against
 * PostgreSQL, `memory-store.unit.test.ts` against the store in memory. An adapter provides
 * `ProjectionStore` and `TestProjection`.
 */
import { assert, describe, it } from '@effect/vitest'
import {
  encodeId,
  eventIdOf,
  type MessageAccepted,
  type MessageFact,
  type Mode,
  newId,
  spendPeriodOf,
} from '@hub/domain'
import {
  type BatchSealed,
  decodeEventRecorded,
  type MessageOutcome,
  type OutgoingRecord,
  topicNames,
} from '@hub/kafka'
import { Context, Effect, type Layer, Result } from 'effect'
import { randomBytes, randomUUID } from 'node:crypto'
import { recordingOf } from '../events/journal.ts'
import type { JournalEntry } from '../messages/fold.ts'
import type { OwnedPartition } from '../projection/record-buffer.ts'
import { applyBatch, type DecodedBatch } from '../projection/transaction.ts'
import { acceptedOf } from '../testing/model.ts'
import { type JournalKey, ProjectionStore, type TransactionOutcome } from './projection-store.port.ts'

/** What the suite needs beside the port. */
export class TestProjection extends Context.Service<
  TestProjection,
  {
    readonly subscribe: (journal: JournalKey) => Effect.Effect<void>
    /** Adds events to the event inbox. */
    readonly addToInbox: (entries: ReadonlyArray<JournalEntry>) => Effect.Effect<void>
    /** An account has spent an amount of its limit in this month, the soft threshold is 80 %. */
    readonly spend: (account: string, spent: string, limit: string) => Effect.Effect<void>
    readonly spent: (account: string) => Effect.Effect<string>
    /** The events of a journal in their order. */
    readonly events: (
      journal: JournalKey,
    ) => Effect.Effect<
      ReadonlyArray<{ readonly sequence: number; readonly type: string; readonly id: string }>
    >
    /** `accepted/sent/delivered/rejected parts price` of each row, in some order. */
    readonly dailyStats: (account: string) => Effect.Effect<ReadonlyArray<string>>
    /** The same, of rows that count messages, after the reason code. */
    readonly hourlyStats: (account: string) => Effect.Effect<ReadonlyArray<string>>
    /** The same, after class, number range and reason code. */
    readonly rangeStats: (account: string) => Effect.Effect<ReadonlyArray<string>>
    /** `kind amount` of each charge, in some order. */
    readonly charges: (account: string) => Effect.Effect<ReadonlyArray<string>>
    /** The ids of messages whose outcomes are due. */
    readonly outcomesDue: Effect.Effect<ReadonlyArray<string>>
    /** The status of a message. */
    readonly status: (messageId: string) => Effect.Effect<string | null>
  }
>()('@hub/projector/testing/TestProjection') {}

const TOPICS = topicNames()
const newAccount = () => encodeId('acc', randomUUID())
const newBatch = () => newId('bat', Date.now(), randomBytes(10))
const journalOf = (account: string, mode: Mode = 'live'): JournalKey => ({ account, mode })

const accept = (account: string, fields: Partial<MessageAccepted> = {}): MessageAccepted => {
  const at = Date.now()
  return acceptedOf(newId('msg', at, randomBytes(10)), at, {
    account,
    parts: 1,
    price: { amount: '2.00', currency: 'RUB' },
    ...fields,
  })
}
const sent = ({ at, messageId }: MessageAccepted): MessageFact => ({
  type: 'MessageSent',
  messageId,
  at: at + 1,
  operator: 'http',
  operatorIds: [`op-${messageId}`],
  reportDeadline: at + 60_000,
})
const delivered = ({ at, messageId }: MessageAccepted): MessageFact => ({
  type: 'MessageDelivered',
  messageId,
  at: at + 2,
})
const rejected = ({ at, messageId }: MessageAccepted): MessageFact => ({
  type: 'MessageRejected',
  messageId,
  at: at + 1,
  reason: 'spam_filter_content',
})
const sealOf = (account: string, batch: string, accepted: number): BatchSealed => ({
  type: 'BatchSealed',
  batch,
  account,
  mode: 'live',
  total: accepted,
  accepted,
  duplicate: 0,
  rejected: 0,
  createdAt: Date.now(),
  at: Date.now(),
})
const entryOf = (account: string, subject: string): JournalEntry => {
  const type = 'template.approved'
  return { account, mode: 'live', event: { id: eventIdOf(subject, type), type, object: { id: subject } } }
}

const takeInbox = Effect.flatMap(ProjectionStore, (store) =>
  store.takeEvents('event inbox', (entries) => recordingOf(TOPICS, entries)),
)

/** Acquires a partition of a topic of its own. */
const acquire = Effect.fnUntraced(function* (topic: string = `topic-${randomUUID()}`) {
  const store = yield* ProjectionStore
  const [checkpoint] = yield* store.acquire([{ topic, partition: 0 }])
  assert.isDefined(checkpoint)
  const owned: OwnedPartition = { ...checkpoint, source: topic, nextOffset: 0, buffered: [] }
  return owned
})

/** Applies facts and seals as the next record of a partition. */
const apply = (
  owned: OwnedPartition,
  content: Partial<Pick<DecodedBatch, 'facts' | 'seals' | 'personalData'>>,
  to = owned.position + 1,
  options?: Parameters<typeof applyBatch>[2],
) =>
  applyBatch(
    TOPICS,
    {
      facts: [],
      seals: [],
      personalData: new Map(),
      ...content,
      advances: [{ owned, to, fence: 3 }],
    },
    options,
  ).pipe(
    Effect.tap(({ kind }) =>
      Effect.sync(() => {
        if (kind === 'applied') owned.position = to
      }),
    ),
  )
const recorded = (outcome: TransactionOutcome): number => (outcome.kind === 'applied' ? outcome.events : -1)
const recordsOf = (outcome: TransactionOutcome): ReadonlyArray<OutgoingRecord> =>
  outcome.kind === 'applied' ? (outcome.publication?.records ?? []) : []

const contents = (records: ReadonlyArray<OutgoingRecord>) =>
  records.flatMap(({ value }) => {
    const decoded = decodeEventRecorded({ value })
    return Result.isSuccess(decoded) ? [decoded.success] : []
  })

export const projectionStoreContract = (
  name: string,
  layer: Layer.Layer<ProjectionStore | TestProjection, unknown>,
): void => {
  const test = (
    title: string,
    body: () => Effect.Effect<void, unknown, ProjectionStore | TestProjection>,
  ): void => it.live(title, () => Effect.suspend(body).pipe(Effect.provide(layer)))

  describe(`the projection's store in ${name}: checkpoints`, () => {
    test('gives each new owner a higher epoch, and the position and fence of the last transaction', () =>
      Effect.gen(function* () {
        const owned = yield* acquire()
        assert.strictEqual(owned.position, 0)
        yield* apply(owned, { facts: [accept(newAccount())] }, 7)
        const next = yield* acquire(owned.topic)
        assert.deepInclude(next, { position: 7, fence: 3 })
        assert.strictEqual(next.epoch, owned.epoch + 1)
      }))

    test('changes nothing for an owner that another one has replaced', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const zombie = yield* acquire()
        yield* acquire(zombie.topic)
        const fact = accept(newAccount())
        assert.deepStrictEqual(yield* apply(zombie, { facts: [fact] }), { kind: 'superseded' })
        assert.isNull(yield* projection.status(fact.messageId))
        assert.deepStrictEqual(yield* projection.events(journalOf(fact.account)), [])
      }))

    test('recognizes a batch that is applied already', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const owned = yield* acquire()
        const fact = accept(newAccount())
        const before = { ...owned }
        yield* apply(owned, { facts: [fact] })
        assert.deepStrictEqual(yield* apply(before, { facts: [fact] }), { kind: 'applied_before' })
        assert.lengthOf(yield* projection.events(journalOf(fact.account)), 1)
      }))
  })

  describe(`the projection's store in ${name}: the journal`, () => {
    test('gives the events of all transactions one sequence without gaps, each event once', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        const [one, two] = [yield* acquire(), yield* acquire()]
        const facts = Array.from({ length: 6 }, () => accept(account))
        yield* Effect.forEach(
          [one, two],
          (owned, i) => apply(owned, { facts: facts.slice(3 * i, 3 * i + 3) }),
          { concurrency: 2 },
        )
        // A second publication, and another event of a known message.
        assert.strictEqual(recorded(yield* apply(one, { facts: [facts[0]!, sent(facts[0]!)] })), 1)
        const events = yield* projection.events(journalOf(account))
        assert.deepStrictEqual(
          events.map(({ sequence }) => sequence),
          [1, 2, 3, 4, 5, 6, 7],
        )
        assert.strictEqual(new Set(events.map(({ id }) => id)).size, 7)
        assert.strictEqual(events.at(-1)?.type, 'message.sent')
      }))

    test('publishes only the events of journals with a subscription', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const [subscribed, other] = [newAccount(), newAccount()]
        yield* projection.subscribe(journalOf(subscribed))
        const outcome = yield* apply(yield* acquire(), {
          facts: [accept(subscribed), accept(other), accept(subscribed, { mode: 'test' })],
        })
        assert.strictEqual(recorded(outcome), 3)
        assert.deepStrictEqual(
          contents(recordsOf(outcome)).map(({ account, mode, sequence }) => ({ account, mode, sequence })),
          [{ account: subscribed, mode: 'live', sequence: 1 }],
        )
      }))

    test('records the events of the inbox once, in their order', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        const entries = ['one', 'two'].map((subject) => entryOf(account, `${account} ${subject}`))
        yield* projection.addToInbox(entries)
        const taken = yield* takeInbox
        assert.deepInclude(taken, { events: 2, isFull: false, publication: null })
        assert.deepInclude(yield* takeInbox, { events: 0, isFull: false })
        // The same event again, by another way.
        yield* projection.addToInbox(entries.slice(0, 1))
        assert.deepInclude(yield* takeInbox, { events: 0 })
        assert.deepStrictEqual(
          (yield* projection.events(journalOf(account))).map(({ id }) => id),
          entries.map(({ event }) => event.id),
        )
      }))
  })

  describe(`the projection's store in ${name}: rows and sums`, () => {
    test('keeps the facts that come before the acceptance, and records their events with it', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const fact = accept(newAccount())
        const owned = yield* acquire()
        assert.strictEqual(recorded(yield* apply(owned, { facts: [sent(fact), delivered(fact)] })), 0)
        assert.strictEqual(recorded(yield* apply(owned, { facts: [fact] })), 3)
        assert.strictEqual(yield* projection.status(fact.messageId), 'delivered')
        assert.deepStrictEqual(
          (yield* projection.events(journalOf(fact.account))).map(({ type }) => type),
          ['message.accepted', 'message.sent', 'message.delivered'],
        )
      }))

    test('stores whose outcome is due, if outcomes are written to their topic', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        const [one, two, off] = [accept(account), accept(account), accept(account)]
        const owned = yield* acquire()
        const facts = [one, two, sent(one), sent(two), delivered(one)]
        yield* apply(owned, { facts }, owned.position + 1, { outcomes: true })
        yield* apply(owned, { facts: [off, delivered(off)] })
        const due = new Set(yield* projection.outcomesDue)
        assert.deepStrictEqual(
          [one, two, off].map(({ messageId }) => due.has(messageId)),
          [true, false, false],
        )
      }))

    test('publishes the outcomes that are due, until that succeeds', () =>
      Effect.gen(function* () {
        const store = yield* ProjectionStore
        const account = newAccount()
        const [one, two] = [accept(account), accept(account)]
        const owned = yield* acquire()
        const facts = [one, two, sent(one), delivered(one), rejected(two)]
        yield* apply(owned, { facts }, owned.position + 1, { outcomes: true })
        const failed = yield* Effect.flip(store.publishOutcomes(() => Effect.fail('no answer' as const)))
        assert.strictEqual(failed, 'no answer')
        const published: Array<MessageOutcome> = []
        const publish = store.publishOutcomes((outcomes) =>
          Effect.sync(() => void published.push(...outcomes)),
        )
        while ((yield* publish) > 0);
        const own = new Map(
          published
            .filter(({ accountId }) => accountId === account)
            .map((outcome) => [
              outcome.messageId,
              [outcome.finalStatus, outcome.reasonCode, outcome.priceHundredths],
            ]),
        )
        assert.deepStrictEqual(own.get(one.messageId), ['delivered', null, 200])
        assert.deepStrictEqual(own.get(two.messageId), ['rejected', 'spam_filter_content', 0])
      }))

    test('adds to the statistics of day, hour and number range', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        const at = Date.UTC(2026, 10, 20, 10, 30)
        const [one, two, old] = [
          accept(account, { at, numberRange: '912' }),
          accept(account, { at, numberRange: '913', parts: 3 }),
          // Of a version that did not record it.
          accept(account, { at, numberRange: null }),
        ]
        const owned = yield* acquire()
        yield* apply(owned, { facts: [one, two, old] })
        yield* apply(owned, { facts: [sent(one), delivered(one), rejected(two)] })
        assert.deepStrictEqual(yield* projection.dailyStats(account), ['3/1/1/1 5 4.00'])
        assert.deepStrictEqual((yield* projection.hourlyStats(account)).toSorted(), [
          ' 2/1/1/0 2 4.00',
          'spam_filter_content 1/0/0/1 3 0.00',
        ])
        assert.deepStrictEqual((yield* projection.rangeStats(account)).toSorted(), [
          'service 912  1/1/1/0 1 2.00',
          'service 913 spam_filter_content 1/0/0/1 3 0.00',
        ])
      }))

    test('closes a sealed batch once, with the transaction of its last final message', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        const batch = newBatch()
        const [one, two] = [accept(account, { batch }), accept(account, { batch })]
        const owned = yield* acquire()
        yield* apply(owned, { facts: [one, two, delivered(one)] })
        yield* apply(owned, { seals: [sealOf(account, batch, 2)] })
        const completed = Effect.map(
          projection.events(journalOf(account)),
          (events) => events.filter(({ type }) => type === 'batch.completed').length,
        )
        assert.strictEqual(yield* completed, 0)
        yield* apply(owned, { facts: [delivered(two)] })
        assert.strictEqual(yield* completed, 1)
        yield* apply(owned, { seals: [sealOf(account, batch, 2)] })
        assert.strictEqual(yield* completed, 1)
      }))

    test('appends a charge and its reversal once, and refunds once', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        yield* projection.spend(account, '10.00', '100.00')
        const fact = accept(account)
        const owned = yield* acquire()
        yield* apply(owned, { facts: [fact] })
        yield* apply(owned, { facts: [rejected(fact)] })
        yield* apply(owned, { facts: [fact, rejected(fact)] })
        assert.deepStrictEqual((yield* projection.charges(account)).toSorted(), [
          'charge 2.00',
          'reversal 2.00',
        ])
        assert.strictEqual(yield* projection.spent(account), '8.00')
      }))

    test('reports once that a charged account has crossed its soft threshold', () =>
      Effect.gen(function* () {
        const projection = yield* TestProjection
        const account = newAccount()
        yield* projection.spend(account, '80.00', '100.00')
        assert.strictEqual(spendPeriodOf(Date.now()).day.slice(-3), '-01')
        const owned = yield* acquire()
        yield* apply(owned, { facts: [accept(account)] })
        yield* apply(owned, { facts: [accept(account)] })
        assert.deepStrictEqual(
          (yield* projection.events(journalOf(account))).map(({ type }) => type).toSorted(),
          ['account.spend_threshold', 'message.accepted', 'message.accepted'],
        )
      }))
  })
}
