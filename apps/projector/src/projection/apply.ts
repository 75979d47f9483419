/**
 * Applies a transaction batch and handles every failure: retries while PostgreSQL or Kafka is
 * unavailable, and finds and dead-letters the records that PostgreSQL rejects, so that the
 * partition continues after them.
 */
import { backoffSchedule, QUICK } from '@hub/flow'
import { deadLetterRecord, EventLog, type IncomingRecord, type TopicNames } from '@hub/kafka'
import type { StorageError, StorageRejected } from '@hub/store'
import { Tracing } from '@hub/telemetry'
import { Clock, Effect } from 'effect'
import type { Publisher } from '../events/publisher.ts'
import type { makePersonalData } from '../messages/personal-data.ts'
import {
  countFailure,
  deadLetters,
  eventsRecorded,
  observeTransaction,
  observeWait,
  recordsApplied,
} from '../metrics.ts'
import type { ProjectionStore, TransactionOutcome } from '../store/projection-store.port.ts'
import { decodeBatch, type DecodedRecords } from './decode.ts'
import { type PartitionRecords, recordCount, type TransactionBatch } from './record-buffer.ts'
import { isolateRejected, type RejectedRecords } from './recovery.ts'
import { sourceTopics } from './source-topics.ts'
import { type BatchTraces, traceBatch } from './traces.ts'
import { applyBatch, movePositions } from './transaction.ts'

interface ApplyOptions {
  /** The consumer group, as an attribute of traces. */
  readonly group: string
  readonly topics: TopicNames
  /** Whether outcomes are written to their topic. */
  readonly outcomes: boolean
  readonly personalData: Effect.Success<typeof makePersonalData>
  readonly publisher: Publisher
  /** False when the member lost a partition of the batch or the process ends. Then retries stop. */
  readonly isWanted: () => boolean
}

/** `abandoned`: `isWanted` became false. `superseded`: another member owns a partition. */
type ApplyResult = 'applied' | 'superseded' | 'abandoned'

/** A dead letter must be in Kafka before its partition continues. No client waits for it. */
const DEAD_LETTER_DEADLINE_MS = 5000

export const makeApply = Effect.fnUntraced(function* ({
  group,
  isWanted,
  outcomes,
  personalData,
  publisher,
  topics,
}: ApplyOptions) {
  const log = yield* EventLog
  const tracing = yield* Tracing

  /** Retries until it succeeds or is no longer wanted. A rejection of the data is a failure. */
  const retryWhileUnavailable = <A, R>(
    attempt: Effect.Effect<A, StorageError, R>,
  ): Effect.Effect<A | 'abandoned', StorageRejected, R> =>
    attempt.pipe(
      Effect.tapErrorTag('StorageUnavailable', (error) =>
        Effect.andThen(
          countFailure('storage'),
          Effect.logWarning('projector: PostgreSQL is unavailable, retrying the transaction').pipe(
            Effect.annotateLogs({ reason: error.reason, detail: error.detail }),
          ),
        ),
      ),
      Effect.retry({
        while: (error) => error._tag === 'StorageUnavailable' && isWanted(),
        schedule: backoffSchedule(QUICK),
      }),
      Effect.catchTag('StorageUnavailable', () => Effect.succeed('abandoned' as const)),
    )

  /** Dead-letters records, except those in `done`. Returns false when it is no longer wanted. */
  const deadLetter = Effect.fnUntraced(function* (
    invalid: DecodedRecords['invalid'],
    done: Set<IncomingRecord>,
  ) {
    const fresh = invalid.filter(({ record }) => !done.has(record))
    if (fresh.length === 0) return true
    const isAcknowledged = yield* log
      .append(
        fresh.map(({ reason, record }) => deadLetterRecord(record, reason)),
        { deadlineMs: DEAD_LETTER_DEADLINE_MS },
      )
      .pipe(
        Effect.tapError(() => countFailure('bus')),
        Effect.retry({ while: isWanted, schedule: backoffSchedule(QUICK) }),
        Effect.as(true),
        Effect.catch((error) =>
          Effect.as(
            Effect.logWarning('projector: dead letters were not appended, the batch is read again').pipe(
              Effect.annotateLogs({ reason: error.reason }),
            ),
            false,
          ),
        ),
      )
    if (!isAcknowledged) return false
    for (const { reason, record } of fresh) {
      done.add(record)
      deadLetters.add({ topic: sourceTopics(topics).get(record.topic) ?? record.topic })
      yield* Effect.logError('projector: dead-lettered a record, continuing after it').pipe(
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

  const transact = Effect.fnUntraced(function* (decoded: DecodedRecords, traces: BatchTraces) {
    const { accepted, advances, facts, seals } = decoded
    const encrypted = yield* personalData.encrypt(accepted)
    const batch = { advances, facts, seals, personalData: encrypted }
    return yield* applyBatch(topics, batch, { outcomes, traces })
  })

  /** After the commit: moves the positions in memory, and publishes the events. */
  const complete = Effect.fnUntraced(function* (
    batch: TransactionBatch,
    { advances }: DecodedRecords,
    outcome: TransactionOutcome,
    startedAt: number,
  ) {
    if (outcome.kind === 'superseded') return 'superseded' as const
    movePositions(advances)
    const now = yield* Clock.currentTimeMillis
    yield* observeTransaction(recordCount(batch), now - startedAt)
    for (const part of batch) yield* observePartition(part, now)
    if (outcome.kind === 'applied_before') yield* publisher.relayRemaining
    else {
      eventsRecorded.add(outcome.events)
      if (outcome.publication !== null) yield* publisher.publish(outcome.publication)
    }
    return 'applied' as const
  })

  const applyOnce = Effect.fnUntraced(function* (
    batch: TransactionBatch,
    rejected: RejectedRecords,
    deadLettered: Set<IncomingRecord>,
  ): Effect.fn.Return<ApplyResult, StorageRejected, ProjectionStore> {
    const decoded = decodeBatch(batch, rejected)
    if (!(yield* deadLetter(decoded.invalid, deadLettered))) return 'abandoned'
    const startedAt = yield* Clock.currentTimeMillis
    const traces = traceBatch(tracing, group, decoded.traced)
    const outcome = yield* retryWhileUnavailable(transact(decoded, traces))
    if (outcome === 'abandoned') return outcome
    if (outcome.kind === 'applied') traces.applied()
    return yield* complete(batch, decoded, outcome, startedAt)
  })

  return (batch: TransactionBatch): Effect.Effect<ApplyResult, never, ProjectionStore> => {
    /** The dead letters so far: the records of a halved batch are decoded again. */
    const deadLettered = new Set<IncomingRecord>()
    return isolateRejected(
      batch,
      (part, rejected) => applyOnce(part, rejected, deadLettered),
      (result) => result === 'applied',
    )
  }
})

const observePartition = Effect.fnUntraced(function* ({ owned, records }: PartitionRecords, now: number) {
  recordsApplied.add({ topic: owned.topic }, records.length)
  const oldest = records[0]
  if (oldest !== undefined) yield* observeWait(now - oldest.occurredAt)
})
