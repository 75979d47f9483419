/**
 * Applies a poll, whatever it takes: waits for a database or a bus that is away, finds the records that cannot be
 * applied, puts them aside and goes on behind them.
 */
import { epochOf, type MessageAccepted, type MessageFact } from '@hub/domain'
import {
  type BatchSealed,
  deadLetterRecord,
  EventLog,
  type IncomingRecord,
  type TopicNames,
} from '@hub/kafka'
import { type Sql, type StorageError, StorageRejected } from '@hub/store'
import { Tracing } from '@hub/telemetry'
import { Clock, Effect } from 'effect'
import { admit } from '../messages/decode.ts'
import type { makePersonalData } from '../messages/personal-data.ts'
import { type PollTraces, type TracedRecord, tracePoll } from './traces.ts'
import { type Advance, applyDigest, type Outcome, type Publication } from './transaction.ts'
import {
  deadLetters,
  eventsRecorded,
  failures,
  observePoll,
  observeWait,
  recordsApplied,
} from '../metrics.ts'
import { bisect, type Chunk, type Poll, sizeOf } from './record-buffer.ts'
import { backoff, recoveryOf } from './recovery.ts'

/** Records that are not to be applied, and why. */
type Faults = ReadonlyMap<IncomingRecord, string>

interface Reading {
  readonly advances: ReadonlyArray<Advance>
  readonly facts: ReadonlyArray<MessageFact>
  readonly accepted: ReadonlyArray<MessageAccepted>
  readonly seals: ReadonlyArray<BatchSealed>
  readonly dead: ReadonlyArray<{ readonly record: IncomingRecord; readonly reason: string }>
  readonly traced: ReadonlyArray<TracedRecord>
}

/** Decodes a poll: what its records mean, which are void, which are dead letters. Pure. */
export const read = (poll: Poll, faults: Faults): Reading => {
  const advances: Array<Advance> = []
  const accepted: Array<MessageAccepted> = []
  const logFacts: Array<MessageFact> = []
  const seals: Array<BatchSealed> = []
  const dead: Array<{ record: IncomingRecord; reason: string }> = []
  const traced: Array<TracedRecord> = []
  for (const { claim, records, to } of poll) {
    let fence = claim.fence
    for (const record of records) {
      const fault = faults.get(record)
      const admitted = fault === undefined ? admit(record) : ({ kind: 'dead', reason: fault } as const)
      switch (admitted.kind) {
        case 'fact': {
          const { fact } = admitted
          if (record.traceparent !== null) traced.push({ record, messageId: fact.messageId })
          if (fact.type === 'MessageAccepted') accepted.push(fact)
          // Said by a member that had lost the shard: nothing was handed over under its claims, and it does not know what was since.
          else if ((epochOf(fact) ?? fence) >= fence) logFacts.push(fact)
          break
        }
        case 'fence':
          fence = Math.max(fence, admitted.epoch)
          break
        case 'dead':
          dead.push({ record, reason: admitted.reason })
          break
        case 'seal':
          seals.push(admitted.seal)
          break
        case 'repetition':
          break
      }
    }
    advances.push({ claim, to, fence })
  }
  return { advances, facts: [...accepted, ...logFacts], accepted, seals, dead, traced }
}

export interface ApplyOptions {
  /** The consumer group, for whoever reads a trace. */
  readonly group: string
  readonly topics: TopicNames
  readonly personalData: Effect.Success<typeof makePersonalData>
  /** False when the poll's partitions were taken away or the process ends: there is no use in trying on. */
  readonly wanted: () => boolean
  /** Gets the events of each transaction, after its commit, in the order of the commits. */
  readonly published: (publication: Publication) => Effect.Effect<void>
  /** Events are in the outbox that nobody is publishing. */
  readonly leftBehind: Effect.Effect<void>
}

/** `abandoned`: not wanted any more. */
export type Applied = 'applied' | 'superseded' | 'abandoned'

/** A dead letter must be on record before its partition moves on, however long Kafka is away. Not a client's wait. */
const DEAD_LETTER_DEADLINE_MS = 5000

export const makeApply = Effect.fnUntraced(function* ({
  group,
  leftBehind,
  personalData,
  published,
  topics,
  wanted,
}: ApplyOptions) {
  const log = yield* EventLog
  const tracing = yield* Tracing
  const none: Faults = new Map()

  /** Tries until it succeeds or nobody wants it any more; a refusal of the data is passed on. */
  const insist = <A, R>(
    attempt: Effect.Effect<A, StorageError, R>,
  ): Effect.Effect<A | 'abandoned', StorageRejected, R> =>
    attempt.pipe(
      Effect.tapErrorTag('StorageUnavailable', (error) =>
        Effect.andThen(
          failures.add('storage', 1),
          Effect.logWarning('the database does not take a poll; trying on').pipe(
            Effect.annotateLogs({ reason: error.reason, detail: error.detail }),
          ),
        ),
      ),
      Effect.retry({
        while: (error) => error._tag === 'StorageUnavailable' && wanted(),
        schedule: backoff,
      }),
      Effect.catchTag('StorageUnavailable', () => Effect.succeed('abandoned' as const)),
    )

  const bury = Effect.fnUntraced(function* (dead: Reading['dead'], buried: Set<IncomingRecord>) {
    const fresh = dead.filter(({ record }) => !buried.has(record))
    if (fresh.length === 0) return true
    const acknowledged = yield* log
      .append(
        fresh.map(({ reason, record }) => deadLetterRecord(record, reason)),
        { deadlineMs: DEAD_LETTER_DEADLINE_MS },
      )
      .pipe(
        Effect.tapError(() => failures.add('bus', 1)),
        Effect.retry({ while: wanted, schedule: backoff }),
        Effect.as(true),
        Effect.catch((error) =>
          Effect.as(
            Effect.logWarning('dead letters could not be written').pipe(
              Effect.annotateLogs({ reason: error.reason }),
            ),
            false,
          ),
        ),
      )
    if (!acknowledged) return false
    for (const { reason, record } of fresh) {
      buried.add(record)
      yield* deadLetters.add(record.topic, 1)
      yield* Effect.logError('a record went to the dead letters').pipe(
        Effect.annotateLogs({
          topic: record.topic,
          partition: record.partition,
          offset: record.offset,
          type: record.type,
          reason,
        }),
      )
    }
    return true
  })

  const transact = Effect.fnUntraced(function* (reading: Reading, traces: PollTraces) {
    const boxes = yield* personalData.boxesOf(reading.accepted)
    const { advances, facts, seals } = reading
    return yield* applyDigest(topics, { advances, facts, seals, boxes }, traces)
  })

  const settle = Effect.fnUntraced(function* (poll: Poll, reading: Reading, outcome: Outcome, began: number) {
    if (outcome.kind === 'superseded') return 'superseded' as const
    for (const { claim, fence, to } of reading.advances) {
      claim.position = to
      claim.fence = fence
    }
    const now = yield* Clock.currentTimeMillis
    yield* observePoll(sizeOf(poll), now - began)
    for (const chunk of poll) yield* observe(chunk, now)
    if (outcome.kind === 'applied_before') yield* leftBehind
    else if (outcome.publication !== null) {
      yield* eventsRecorded.add(outcome.publication.records.length)
      yield* published(outcome.publication)
    }
    return 'applied' as const
  })

  /** `buried`: dead letters that are on record already, since a poll that is halved is read again. */
  const apply = (
    poll: Poll,
    faults: Faults,
    buried: Set<IncomingRecord>,
  ): Effect.Effect<Applied, never, Sql> =>
    Effect.gen(function* () {
      const reading = read(poll, faults)
      if (!(yield* bury(reading.dead, buried))) return 'abandoned'
      const began = yield* Clock.currentTimeMillis
      const traces = tracePoll(tracing, group, reading.traced)
      const outcome = yield* insist(transact(reading, traces))
      if (outcome === 'abandoned') return outcome
      if (outcome.kind === 'applied') traces.applied()
      return yield* settle(poll, reading, outcome, began)
    }).pipe(
      Effect.catchTag('StorageRejected', (error) => {
        if (recoveryOf(error, sizeOf(poll)) === 'bisect') {
          const [first, second] = bisect(poll)
          return Effect.flatMap(apply(first, faults, buried), (applied) =>
            applied === 'applied' ? apply(second, faults, buried) : Effect.succeed(applied),
          )
        }
        const record = poll[0]?.records[0]
        // A fault already known is not applied, so it cannot be refused: what is refused then is no record's fault.
        return record === undefined || faults.has(record)
          ? Effect.die(error)
          : apply(poll, new Map([...faults, [record, `storage_rejected_${error.code}`]]), buried)
      }),
    )

  return (poll: Poll): Effect.Effect<Applied, never, Sql> => apply(poll, none, new Set())
})

const observe = Effect.fnUntraced(function* ({ claim, records }: Chunk, now: number) {
  yield* recordsApplied.add(claim.topic, records.length)
  const oldest = records[0]
  if (oldest !== undefined) yield* observeWait(now - oldest.occurredAt)
})
