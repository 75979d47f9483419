/**
 * The transaction that applies a batch: moves the checkpoints, writes rows of messages, then shared
 * aggregates, and last the events under the locks of their journal heads.
 */
import { eventIdOf, type MessageFact, spendThresholdEventId } from '@hub/domain'
import type { BatchSealed, TopicNames } from '@hub/kafka'
import { CommandSpendPeriods, type Queries, Sql, type StorageError } from '@hub/store'
import { Clock, Effect } from 'effect'
import {
  batchCompletedEntry,
  chargedPeriods,
  closingCandidates,
  spendThresholdEntry,
} from '../events/aggregate-events.ts'
import {
  assignSequences,
  journalsOf,
  notRecordedBefore,
  type Recorded,
  writeJournal,
} from '../events/journal.ts'
import { type Changes, fold } from '../messages/fold.ts'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import { closeBatches, writeBatches } from '../tables/batches.ts'
import { appendAndRefund } from '../tables/charges.ts'
import { type Checkpoint, lockCheckpoints, partitionKey, updateCheckpoints } from '../tables/checkpoints.ts'
import { writeDailyStats } from '../tables/daily-stats.ts'
import { writeHourlyStats } from '../tables/hourly-stats.ts'
import { findRecordedEvents, lockJournalHeads } from '../events/journal-tables.ts'
import { writeHistory } from '../tables/message-history.ts'
import { readMessages, writeAccepted, writeStatuses } from '../tables/messages.ts'
import { writeOperatorIds } from '../tables/operator-ids.ts'
import { personalDataRows, writePersonalData } from '../tables/personal-data.ts'
import { batchUuid, messageUuid, type ReadSchema } from '../tables/read-schema.ts'
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

export type TransactionOutcome =
  | ({ readonly kind: 'applied' } & Recorded)
  /** An earlier attempt with an unknown outcome was committed. The outbox contains its events. */
  | { readonly kind: 'applied_before' }
  /** Another member owns a partition or moved its checkpoint. Nothing was changed. */
  | { readonly kind: 'superseded' }

/**
 * The deadline of a transaction, ms: tens of milliseconds, more under stress, and less than the ten
 * seconds in which a process must end.
 */
const DEADLINE_MS = 5000

/**
 * Compares the stored checkpoints with those from which the batch was read. `applied_before`: an
 * earlier attempt with an unknown outcome was committed. `superseded`: another owner moved them.
 */
const compareCheckpoints = (
  advances: ReadonlyArray<CheckpointAdvance>,
  stored: ReadonlyArray<Checkpoint>,
): 'as_expected' | 'applied_before' | 'superseded' => {
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

/** Locks and compares the checkpoints, and reads the rows of messages, in one round trip. */
export const lockAndRead = async (
  q: Queries,
  advances: ReadonlyArray<CheckpointAdvance>,
  facts: ReadonlyArray<MessageFact>,
  schema: ReadSchema = 'read',
) => {
  const messageIds = [...new Set(facts.map(({ messageId }) => messageId))]
  const partitions = advances.map(({ owned }) => owned)
  const [stored, rows] = await Promise.all([
    lockCheckpoints(q, partitions, schema),
    messageIds.length === 0 ? new Map() : readMessages(q, messageIds, schema),
  ])
  return { comparison: compareCheckpoints(advances, stored), messageIds, rows }
}

/** Statements for the checkpoints and the rows of messages. */
export const writeMessages = (
  q: Queries,
  advances: ReadonlyArray<CheckpointAdvance>,
  changes: Changes,
  schema: ReadSchema = 'read',
) => {
  const { accepted, history, operatorIds, unaccepted, updated } = changes
  const statuses = [...updated, ...unaccepted]
  const checkpoints = advances.map(({ owned: { partition, topic }, fence, to }) => ({
    topic,
    partition,
    position: to,
    fence,
  }))
  return [
    updateCheckpoints(q, checkpoints, schema),
    ...(accepted.length > 0 ? [writeAccepted(q, accepted, schema)] : []),
    ...(statuses.length > 0 ? [writeStatuses(q, statuses, schema)] : []),
    ...(history.length > 0 ? [writeHistory(q, history, schema)] : []),
    ...(operatorIds.length > 0 ? [writeOperatorIds(q, operatorIds, schema)] : []),
  ]
}

/** Statements for the sums over messages, in the order of tables that every transaction uses. */
export const writeSums = (
  q: Queries,
  { batches, dailyStats, hourlyStats }: Changes,
  seals: ReadonlyArray<BatchSealed>,
  schema: ReadSchema = 'read',
) => [
  ...(batches.length > 0 || seals.length > 0 ? [writeBatches(q, batches, seals, schema)] : []),
  ...(dailyStats.length > 0 ? [writeDailyStats(q, dailyStats, schema)] : []),
  ...(hourlyStats.length > 0 ? [writeHourlyStats(q, hourlyStats, schema)] : []),
]

/** Statements for personal data, which a rebuild does not write. */
const writePersonal = (q: Queries, { accepted }: Changes, encrypted: DecodedBatch['personalData']) => {
  const rows = personalDataRows(
    accepted.map(({ fact }) => fact),
    encrypted,
  )
  return rows.length > 0 ? [writePersonalData(q, rows)] : []
}

/** Statements for charges and the spend that they change. */
const writeCharges = (q: Queries, { charges }: Changes) => {
  const reversals = charges.filter(({ kind }) => kind === 'reversal')
  return [
    ...(reversals.length > 0 ? [CommandSpendPeriods.lock(q, reversals, chargedPeriods(charges))] : []),
    ...(charges.length > 0 ? [appendAndRefund(q, charges)] : []),
  ]
}

/**
 * Applies a batch of any size in three round trips: lock and read; write rows and lock the journal
 * heads; write events.
 */
export const applyBatch = (
  topics: TopicNames,
  batch: DecodedBatch,
  traces: BatchTraces = UNTRACED,
): Effect.Effect<TransactionOutcome, StorageError, Sql> =>
  Effect.flatMap(Effect.all([Sql, Clock.currentTimeMillis]), ([sql, now]) =>
    sql.transaction<TransactionOutcome>(
      async (q) => {
        const { advances, facts, personalData, seals } = batch
        const { comparison, messageIds, rows } = await lockAndRead(q, advances, facts)
        if (comparison !== 'as_expected') return { kind: comparison }

        const changes = fold(rows, facts)
        const candidates = closingCandidates(changes.batches, seals)
        const periods = chargedPeriods(changes.charges)
        const since = Math.min(
          notRecordedBefore(
            [...messageIds.map(messageUuid), ...candidates.map(({ batch }) => batchUuid(batch))],
            now,
          ),
          ...periods.map(({ period }) => Date.parse(period)),
        )
        // A connection executes statements in the order of their start. Shared rows, the journal
        // heads most of all, must be locked for as short a time as possible.
        const writes = [
          ...writeMessages(q, advances, changes),
          ...writePersonal(q, changes, personalData),
          ...writeSums(q, changes, seals),
          ...writeCharges(q, changes),
        ].map((statement) => statement.execute())
        if (changes.events.length === 0 && candidates.length === 0) {
          await Promise.all(writes)
          return { kind: 'applied', events: 0, publication: null }
        }
        const [closed, crossed, heads, recorded] = await Promise.all([
          candidates.length === 0 ? [] : closeBatches(q, candidates),
          periods.length === 0 ? [] : CommandSpendPeriods.markCrossedThresholds(q, periods),
          lockJournalHeads(q, journalsOf([...changes.events, ...candidates])),
          findRecordedEvents(
            q,
            [
              ...changes.events.map(({ event }) => event.id),
              ...candidates.map(({ batch }) => eventIdOf(batch, 'batch.completed')),
              ...periods.map(({ account, period }) => spendThresholdEventId(account, period)),
            ],
            since,
          ),
          Promise.all(writes),
        ])
        const entries = [
          ...changes.events,
          ...closed.map(batchCompletedEntry),
          ...crossed.map(spendThresholdEntry),
        ]
        const journal = assignSequences(entries, heads, recorded)
        return { kind: 'applied', ...(await writeJournal(q, topics, journal, traces.ofEvents(entries))) }
      },
      { deadline: DEADLINE_MS },
    ),
  )
