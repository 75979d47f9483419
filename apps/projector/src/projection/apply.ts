/**
 * Applies a transaction batch and handles every failure: retries while PostgreSQL or Kafka is
 * unavailable, and finds and dead-letters the records that PostgreSQL rejects, so that the
 * partition continues after them.
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
import type { Publisher } from '../events/publisher.ts'
import { decodeAndValidate } from '../messages/decode.ts'
import type { makePersonalData } from '../messages/personal-data.ts'
import {
  deadLetters,
  eventsRecorded,
  failures,
  observeTransaction,
  observeWait,
  recordsApplied,
} from '../metrics.ts'
import { bisect, type PartitionRecords, recordCount, type TransactionBatch } from './record-buffer.ts'
import { backoff, recoveryOf } from './recovery.ts'
import { type BatchTraces, traceBatch, type TracedRecord } from './traces.ts'
import { applyBatch, type CheckpointAdvance, type TransactionOutcome } from './transaction.ts'

/** Records that PostgreSQL rejected, with a reason code. */
type RejectedRecords = ReadonlyMap<IncomingRecord, string>

interface DecodedRecords {
  readonly advances: ReadonlyArray<CheckpointAdvance>
  readonly facts: ReadonlyArray<MessageFact>
  readonly accepted: ReadonlyArray<MessageAccepted>
  readonly seals: ReadonlyArray<BatchSealed>
  readonly invalid: ReadonlyArray<{ readonly record: IncomingRecord; readonly reason: string }>
  readonly traced: ReadonlyArray<TracedRecord>
}

/** Decodes the records of a batch, and leaves out facts that a fence made void. Pure. */
export const decodeBatch = (batch: TransactionBatch, rejected: RejectedRecords): DecodedRecords => {
  const advances: Array<CheckpointAdvance> = []
  const accepted: Array<MessageAccepted> = []
  const logFacts: Array<MessageFact> = []
  const seals: Array<BatchSealed> = []
  const invalid: Array<{ record: IncomingRecord; reason: string }> = []
  const traced: Array<TracedRecord> = []
  for (const { owned, records, to } of batch) {
    let fence = owned.fence
    for (const record of records) {
      const reason = rejected.get(record)
      const decoded =
        reason === undefined ? decodeAndValidate(record) : ({ kind: 'invalid', reason } as const)
      switch (decoded.kind) {
        case 'fact': {
          const { fact } = decoded
          if (record.traceparent !== null) traced.push({ record, messageId: fact.messageId })
          if (fact.type === 'MessageAccepted') accepted.push(fact)
          // A fact with a lower epoch comes from a zombie, which submitted nothing.
          else if ((epochOf(fact) ?? fence) >= fence) logFacts.push(fact)
          break
        }
        case 'fence':
          fence = Math.max(fence, decoded.epoch)
          break
        case 'invalid':
          invalid.push({ record, reason: decoded.reason })
          break
        case 'seal':
          seals.push(decoded.seal)
          break
        case 'repetition':
          break
      }
    }
    advances.push({ owned, to, fence })
  }
  return { advances, facts: [...accepted, ...logFacts], accepted, seals, invalid, traced }
}

interface ApplyOptions {
  /** The consumer group, as an attribute of traces. */
  readonly group: string
  readonly topics: TopicNames
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
          failures.add('storage', 1),
          Effect.logWarning('projector: PostgreSQL is unavailable, retrying the transaction').pipe(
            Effect.annotateLogs({ reason: error.reason, detail: error.detail }),
          ),
        ),
      ),
      Effect.retry({
        while: (error) => error._tag === 'StorageUnavailable' && isWanted(),
        schedule: backoff,
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
        Effect.tapError(() => failures.add('bus', 1)),
        Effect.retry({ while: isWanted, schedule: backoff }),
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
      yield* deadLetters.add(record.topic, 1)
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
    return yield* applyBatch(topics, { advances, facts, seals, personalData: encrypted }, traces)
  })

  /** After the commit: moves the positions in memory, and publishes the events. */
  const complete = Effect.fnUntraced(function* (
    batch: TransactionBatch,
    { advances }: DecodedRecords,
    outcome: TransactionOutcome,
    startedAt: number,
  ) {
    if (outcome.kind === 'superseded') return 'superseded' as const
    for (const { owned, fence, to } of advances) {
      owned.position = to
      owned.fence = fence
    }
    const now = yield* Clock.currentTimeMillis
    yield* observeTransaction(recordCount(batch), now - startedAt)
    for (const part of batch) yield* observePartition(part, now)
    if (outcome.kind === 'applied_before') yield* publisher.relayRemaining
    else if (outcome.publication !== null) {
      yield* eventsRecorded.add(outcome.publication.records.length)
      yield* publisher.publish(outcome.publication)
    }
    return 'applied' as const
  })

  /** `deadLettered`: dead letters so far. A bisected batch is decoded again. */
  const apply = (
    batch: TransactionBatch,
    rejected: RejectedRecords,
    deadLettered: Set<IncomingRecord>,
  ): Effect.Effect<ApplyResult, never, Sql> =>
    Effect.gen(function* () {
      const decoded = decodeBatch(batch, rejected)
      if (!(yield* deadLetter(decoded.invalid, deadLettered))) return 'abandoned'
      const startedAt = yield* Clock.currentTimeMillis
      const traces = traceBatch(tracing, group, decoded.traced)
      const outcome = yield* retryWhileUnavailable(transact(decoded, traces))
      if (outcome === 'abandoned') return outcome
      if (outcome.kind === 'applied') traces.applied()
      return yield* complete(batch, decoded, outcome, startedAt)
    }).pipe(
      Effect.catchTag('StorageRejected', (error) => {
        if (recoveryOf(error, recordCount(batch)) === 'bisect') {
          const [first, second] = bisect(batch)
          return Effect.flatMap(apply(first, rejected, deadLettered), (result) =>
            result === 'applied' ? apply(second, rejected, deadLettered) : Effect.succeed(result),
          )
        }
        const record = batch[0]?.records[0]
        // A rejected record is left out, so its second rejection is our own defect.
        return record === undefined || rejected.has(record)
          ? Effect.die(error)
          : apply(batch, new Map([...rejected, [record, `storage_rejected_${error.code}`]]), deadLettered)
      }),
    )

  return (batch: TransactionBatch): Effect.Effect<ApplyResult, never, Sql> =>
    apply(batch, new Map(), new Set())
})

const observePartition = Effect.fnUntraced(function* ({ owned, records }: PartitionRecords, now: number) {
  yield* recordsApplied.add(owned.topic, records.length)
  const oldest = records[0]
  if (oldest !== undefined) yield* observeWait(now - oldest.occurredAt)
})
