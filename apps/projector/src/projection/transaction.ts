/**
 * The transaction that applies a batch: moves the checkpoints, writes rows of messages, then shared
 * aggregates, and last the events under the locks of their journal heads. Decides what it writes;
 * the store executes it.
 */
import { eventIdOf, type MessageFact, spendThresholdEventId } from '@hub/domain'
import type { BatchSealed, TopicNames } from '@hub/kafka'
import type { StorageError } from '@hub/store'
import { Clock, Effect } from 'effect'
import {
  batchCompletedEntry,
  chargedPeriods,
  closingCandidates,
  spendThresholdEntry,
} from '../events/aggregate-events.ts'
import { assignSequences, journalsOf, notRecordedBefore, withRecords } from '../events/journal.ts'
import { type Changes, fold } from '../messages/fold.ts'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import { finalNow } from '../outcomes/final-now.ts'
import {
  type BatchTransaction,
  type BatchWrites,
  type Checkpoint,
  type EventRecording,
  type NotApplied,
  partitionKey,
  ProjectionStore,
  type StoredState,
  type TransactionOutcome,
} from '../store/projection-store.port.ts'
import { batchUuid, messageUuid } from '../tables/read-schema.ts'
import type { OwnedPartition } from './record-buffer.ts'
import { type BatchTraces, UNTRACED } from './traces.ts'

/** The new position of a checkpoint. */
export interface CheckpointAdvance {
  readonly owned: OwnedPartition
  readonly to: number
  /** The highest epoch of a fence (`ShardOpened`) before `to`. */
  readonly fence: number
}

/** Moves the positions in memory, after the commit. */
export const movePositions = (advances: ReadonlyArray<CheckpointAdvance>): void => {
  for (const { owned, fence, to } of advances) {
    owned.position = to
    owned.fence = fence
  }
}

/** What the records of a transaction batch mean for the read models. */
export interface DecodedBatch {
  readonly advances: ReadonlyArray<CheckpointAdvance>
  /** Lane facts before log facts, so that an acceptance precedes facts of its batch. */
  readonly facts: ReadonlyArray<MessageFact>
  readonly seals: ReadonlyArray<BatchSealed>
  /** By message id, for the messages that are accepted in this batch. */
  readonly personalData: ReadonlyMap<string, EncryptedPersonalData>
}

/** Compares the stored checkpoints with those from which the batch was read. */
export const compareCheckpoints = (
  advances: ReadonlyArray<CheckpointAdvance>,
  stored: ReadonlyArray<Checkpoint>,
): 'as_expected' | NotApplied => {
  const byPartition = new Map(stored.map((one) => [partitionKey(one), one]))
  let expected = 0
  let applied = 0
  for (const { owned, to } of advances) {
    const checkpoint = byPartition.get(partitionKey(owned))
    if (checkpoint === undefined || checkpoint.epoch !== owned.epoch) return 'superseded'
    if (checkpoint.position === owned.position) expected++
    if (checkpoint.position === to) applied++
  }
  if (expected === advances.length) return 'as_expected'
  return applied === advances.length ? 'applied_before' : 'superseded'
}

/** The partitions and messages whose stored state a batch needs. */
export const readsOf = (
  advances: ReadonlyArray<CheckpointAdvance>,
  facts: ReadonlyArray<MessageFact>,
): Pick<BatchTransaction, 'messageIds' | 'partitions'> => ({
  partitions: advances.map(({ owned }) => owned),
  messageIds: [...new Set(facts.map(({ messageId }) => messageId))],
})

/** The checkpoints after a batch. */
export const checkpointsAfter = (
  advances: ReadonlyArray<CheckpointAdvance>,
): ReadonlyArray<Omit<Checkpoint, 'epoch'>> =>
  advances.map(({ owned: { partition, topic }, fence, to }) => ({ topic, partition, position: to, fence }))

interface BatchContext {
  readonly topics: TopicNames
  readonly traces: BatchTraces
  /** Milliseconds since the epoch. */
  readonly now: number
  /** Whether outcomes are written to their topic. */
  readonly outcomes: boolean
}

const recordingOf = (
  { now, topics, traces }: BatchContext,
  messageIds: ReadonlyArray<string>,
  changes: Changes,
  { candidates, periods }: Pick<BatchWrites, 'candidates' | 'periods'>,
): EventRecording | null => {
  const { events } = changes
  if (events.length === 0 && candidates.length === 0) return null
  return {
    journals: journalsOf([...events, ...candidates]),
    eventIds: [
      ...events.map(({ event }) => event.id),
      ...candidates.map(({ batch }) => eventIdOf(batch, 'batch.completed')),
      ...periods.map(({ account, period }) => spendThresholdEventId(account, period)),
    ],
    since: Math.min(
      notRecordedBefore(
        [...messageIds.map(messageUuid), ...candidates.map(({ batch }) => batchUuid(batch))],
        now,
      ),
      ...periods.map(({ period }) => Date.parse(period)),
    ),
    write: ({ closed, crossed, heads, recorded }) => {
      const entries = [...events, ...closed.map(batchCompletedEntry), ...crossed.map(spendThresholdEntry)]
      return withRecords(topics, assignSequences(entries, heads, recorded), traces.ofEvents(entries))
    },
  }
}

/** What a batch reads, and what it writes for the stored state. Pure. */
export const transactionOf = (context: BatchContext, batch: DecodedBatch): BatchTransaction => {
  const { advances, facts, personalData, seals } = batch
  const reads = readsOf(advances, facts)
  const decide = ({ checkpoints, rows }: StoredState): BatchWrites | NotApplied => {
    const comparison = compareCheckpoints(advances, checkpoints)
    if (comparison !== 'as_expected') return comparison
    const changes = fold(rows, facts)
    const candidates = closingCandidates(changes.batches, seals)
    const periods = chargedPeriods(changes.charges)
    return {
      checkpoints: checkpointsAfter(advances),
      changes,
      seals,
      personalData,
      candidates,
      periods,
      outcomesDue: context.outcomes ? finalNow(rows, changes) : [],
      recording: recordingOf(context, reads.messageIds, changes, { candidates, periods }),
    }
  }
  return { ...reads, decide }
}

/** Applies a batch of any size. */
export const applyBatch = (
  topics: TopicNames,
  batch: DecodedBatch,
  { outcomes = false, traces = UNTRACED }: Partial<Pick<BatchContext, 'outcomes' | 'traces'>> = {},
): Effect.Effect<TransactionOutcome, StorageError, ProjectionStore> =>
  Effect.flatMap(Effect.all([ProjectionStore, Clock.currentTimeMillis]), ([store, now]) =>
    store.apply(transactionOf({ topics, traces, now, outcomes }, batch)),
  )
