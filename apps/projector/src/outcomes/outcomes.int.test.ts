import { assert, describe, it } from '@effect/vitest'
import type { LogFact, MessageAccepted } from '@hub/domain'
import {
  decodeMessageOutcome,
  EventLog,
  type IncomingRecord,
  type MessageOutcome,
  messageOutcomeRecord,
  TopicReader,
} from '@hub/kafka'
import { readRebuild, requestRebuild } from '@hub/store'
import { Effect, Result, Schedule } from 'effect'
import { MAX_BATCH_RECORDS } from '../projection/worker.ts'
import { ProjectionStore } from '../store/projection-store.port.ts'
import {
  acceptanceOf,
  account,
  append,
  applied,
  deliveryOf,
  laneRecord,
  logRecords,
  startProjector,
  startRebuilds,
  until,
  useTestEnvironment,
} from '../testing/harness.ts'
import { publishNextOutcomes, runOutcomes } from './publish-outcomes.ts'

const environment = await useTestEnvironment('outcomes')
const { prefix, topics } = environment

/** Bounds a test that hangs. */
const WITHIN_MS = 120_000

const project = Effect.fnUntraced(function* (fact: MessageAccepted, facts: ReadonlyArray<LogFact>) {
  const records = [laneRecord(environment, fact), ...logRecords(environment, fact, facts)]
  yield* applied(prefix, yield* append(records))
})
const projecting = startProjector(environment, MAX_BATCH_RECORDS, true)

/** Publishes until nothing is due. */
const publishAll = publishNextOutcomes(topics).pipe(Effect.repeat({ until: (count) => count === 0 }))

const readTopic = Effect.flatMap(TopicReader, (reader) => reader.readAll(topics.outcomes)).pipe(
  Effect.retry(Schedule.spaced('100 millis')),
)
const outcomeIn = (record: IncomingRecord): MessageOutcome => {
  const decoded = decodeMessageOutcome(record)
  if (Result.isFailure(decoded)) throw new Error(`the record is no outcome: ${decoded.failure.reason}`)
  return decoded.success
}
/** The records of a message, in their order. */
const recordsOf = ({ messageId }: MessageAccepted) =>
  Effect.map(readTopic, (records) => records.filter(({ key }) => key === messageId))
const outcomesOf = (fact: MessageAccepted) => Effect.map(recordsOf(fact), (records) => records.map(outcomeIn))

const expiry = ({ at, messageId }: MessageAccepted): LogFact => ({
  type: 'MessageExpired',
  messageId,
  at: at + 500,
  reason: 'dlr_timeout_local',
})
const delivery = ({ at, messageId }: MessageAccepted): LogFact => ({
  type: 'MessageDelivered',
  messageId,
  at: at + 900,
})
const rejection = ({ at, messageId }: MessageAccepted): LogFact => ({
  type: 'MessageRejected',
  messageId,
  at: at + 5,
  reason: 'spam_filter_content',
})

describe('the topic of outcomes', () => {
  it.live(
    'contains one record for each message with a final status, and none for the others',
    () =>
      Effect.gen(function* () {
        yield* projecting
        const delivered = yield* acceptanceOf({ account: account(1), number: '+79001234567' })
        const rejected = yield* acceptanceOf({ account: account(1) })
        const open = yield* acceptanceOf({ account: account(1) })
        yield* project(delivered, deliveryOf(delivered))
        yield* project(rejected, [rejection(rejected)])
        yield* project(open, deliveryOf(open).slice(0, 2))
        yield* publishAll
        const { at } = delivered
        const expected: MessageOutcome = {
          type: 'MessageOutcome',
          messageId: delivered.messageId,
          accountId: account(1),
          messageMode: 'live',
          messageClass: 'service',
          templateName: 'order_ready',
          senderName: 'HUB',
          batchId: null,
          operatorName: 'http',
          partCount: 1,
          attemptCount: 1,
          finalStatus: 'delivered',
          reasonCode: null,
          priceHundredths: 200,
          priceCurrency: 'RUB',
          acceptedAt: at,
          submittedAt: at + 2,
          finalAt: at + 3,
        }
        assert.deepStrictEqual(yield* outcomesOf(delivered), [expected])
        assert.deepStrictEqual(yield* outcomesOf(rejected), [
          {
            ...expected,
            messageId: rejected.messageId,
            operatorName: null,
            attemptCount: 0,
            finalStatus: 'rejected',
            reasonCode: 'spam_filter_content',
            priceHundredths: 0,
            acceptedAt: rejected.at,
            submittedAt: null,
            finalAt: rejected.at + 5,
          },
        ])
        assert.deepStrictEqual(yield* outcomesOf(open), [])
        // An erasure has nothing to remove here.
        const texts = (yield* readTopic).map(({ value }) => Buffer.from(value).toString('latin1'))
        for (const secret of [delivered.recipient, '9001234567', delivered.clientRef ?? ''])
          assert.notInclude(texts.join('\n'), secret)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'gets the outcome of a late report as its last record of the message',
    () =>
      Effect.gen(function* () {
        yield* projecting
        const fact = yield* acceptanceOf({ account: account(2) })
        yield* project(fact, [...deliveryOf(fact).slice(0, 2), expiry(fact)])
        yield* publishAll
        yield* project(fact, [delivery(fact)])
        yield* publishAll
        const statuses = (yield* outcomesOf(fact)).map(({ finalStatus }) => finalStatus)
        assert.deepStrictEqual(statuses, ['expired', 'delivered'])
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'never gets an outcome that a late report has replaced before it was written',
    () =>
      Effect.gen(function* () {
        yield* projecting
        const fact = yield* acceptanceOf({ account: account(3) })
        yield* project(fact, [...deliveryOf(fact).slice(0, 2), expiry(fact)])
        yield* project(fact, [delivery(fact)])
        yield* publishAll
        const statuses = (yield* outcomesOf(fact)).map(({ finalStatus }) => finalStatus)
        assert.deepStrictEqual(new Set(statuses), new Set(['delivered']))
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'gets the same record again after a failure behind the append, and none is lost',
    () =>
      Effect.gen(function* () {
        yield* projecting
        const fact = yield* acceptanceOf({ account: account(4) })
        yield* project(fact, deliveryOf(fact))
        const log = yield* EventLog
        const { publishOutcomes } = yield* ProjectionStore
        const appendAndDie = publishOutcomes((outcomes) =>
          log
            .append(outcomes.map((outcome) => messageOutcomeRecord(topics, outcome)))
            .pipe(Effect.andThen(Effect.fail('the process died' as const))),
        )
        assert.strictEqual(yield* Effect.flip(appendAndDie), 'the process died')
        yield* publishAll
        const [first, second, ...more] = yield* recordsOf(fact)
        assert.isDefined(first)
        assert.isDefined(second)
        assert.deepStrictEqual(more, [])
        assert.deepStrictEqual([second.key, second.id], [first.key, first.id])
        assert.deepStrictEqual(Buffer.from(second.value), Buffer.from(first.value))
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'gets all outcomes again when a rebuild has swapped the tables',
    () =>
      Effect.gen(function* () {
        yield* projecting
        yield* startRebuilds(environment, MAX_BATCH_RECORDS, true)
        const fact = yield* acceptanceOf({ account: account(5) })
        yield* project(fact, deliveryOf(fact))
        yield* publishAll
        const before = yield* readTopic
        const { id } = yield* requestRebuild('swap')
        const ended = yield* readRebuild(id).pipe(
          Effect.repeat({
            until: (rebuild) => rebuild?.endedAt != null,
            schedule: Schedule.spaced('100 millis'),
          }),
        )
        assert.strictEqual(ended?.outcome, 'swapped')
        yield* publishAll
        const again = (yield* readTopic).slice()
        const last = (records: ReadonlyArray<IncomingRecord>) =>
          new Map(records.map((record) => [record.key, Buffer.from(record.value).toString('hex')]))
        assert.deepStrictEqual(last(again), last(before))
        assert.lengthOf(again, before.length + last(before).size)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'gets nothing while it is switched off, except what is left',
    () =>
      Effect.gen(function* () {
        yield* projecting
        const left = yield* acceptanceOf({ account: account(6) })
        yield* project(left, deliveryOf(left))
        yield* runOutcomes(topics, false)
        yield* until(async (q) => (await q`SELECT 1 FROM read.outcomes_due`).length === 0)
        assert.lengthOf(yield* outcomesOf(left), 1)
      }).pipe(
        Effect.scoped,
        Effect.andThen(
          Effect.gen(function* () {
            yield* startProjector(environment)
            const off = yield* acceptanceOf({ account: account(6) })
            yield* project(off, deliveryOf(off))
            yield* publishAll
            assert.deepStrictEqual(yield* outcomesOf(off), [])
          }).pipe(Effect.scoped),
        ),
        Effect.provide(environment.layer),
      ),
    WITHIN_MS,
  )
})
