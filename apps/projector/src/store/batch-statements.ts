/**
 * The statements of a transaction batch. The live projection and a rebuild use them, each in its
 * schema.
 */
import { CommandSpendPeriods, type Queries } from '@hub/store'
import type { BatchSealed } from '@hub/kafka'
import { chargedPeriods } from '../events/aggregate-events.ts'
import type { Changes } from '../messages/fold.ts'
import { writeBatches } from '../tables/batches.ts'
import { appendAndRefund } from '../tables/charges.ts'
import { lockCheckpoints, updateCheckpoints } from '../tables/checkpoints.ts'
import { writeDailyStats } from '../tables/daily-stats.ts'
import { writeHourlyStats } from '../tables/hourly-stats.ts'
import { readMessages, writeAccepted, writeStatuses } from '../tables/messages.ts'
import { writeOperatorIds } from '../tables/operator-ids.ts'
import { personalDataRows, writePersonalData } from '../tables/personal-data.ts'
import { writeRangeStats } from '../tables/range-stats.ts'
import type { ReadSchema } from '../tables/read-schema.ts'
import type { BatchTransaction, BatchWrites, Checkpoint, StoredState } from './projection-store.port.ts'

/** Locks the checkpoints and reads the rows of messages, in one round trip. */
export const lockAndRead = async (
  q: Queries,
  { messageIds, partitions }: Pick<BatchTransaction, 'messageIds' | 'partitions'>,
  schema: ReadSchema = 'read',
): Promise<StoredState> => {
  const [checkpoints, rows] = await Promise.all([
    lockCheckpoints(q, partitions, schema),
    messageIds.length === 0 ? new Map() : readMessages(q, messageIds, schema),
  ])
  return { checkpoints, rows }
}

/** Statements for the checkpoints and the rows of messages. */
export const writeMessages = (
  q: Queries,
  checkpoints: ReadonlyArray<Omit<Checkpoint, 'epoch'>>,
  { accepted, operatorIds, unaccepted, updated }: Changes,
  schema: ReadSchema = 'read',
) => {
  const statuses = [...updated, ...unaccepted]
  return [
    updateCheckpoints(q, checkpoints, schema),
    ...(accepted.length > 0 ? [writeAccepted(q, accepted, schema)] : []),
    ...(statuses.length > 0 ? [writeStatuses(q, statuses, schema)] : []),
    ...(operatorIds.length > 0 ? [writeOperatorIds(q, operatorIds, schema)] : []),
  ]
}

/** Statements for the sums over messages, in the order of tables that every transaction uses. */
export const writeSums = (
  q: Queries,
  { batches, dailyStats, hourlyStats, rangeStats }: Changes,
  seals: ReadonlyArray<BatchSealed>,
  schema: ReadSchema = 'read',
) => [
  ...(batches.length > 0 || seals.length > 0 ? [writeBatches(q, batches, seals, schema)] : []),
  ...(dailyStats.length > 0 ? [writeDailyStats(q, dailyStats, schema)] : []),
  ...(hourlyStats.length > 0 ? [writeHourlyStats(q, hourlyStats, schema)] : []),
  ...(rangeStats.length > 0 ? [writeRangeStats(q, rangeStats, schema)] : []),
]

/** Statements for personal data, which a rebuild does not write. */
export const writePersonal = (q: Queries, { accepted }: Changes, encrypted: BatchWrites['personalData']) => {
  const rows = personalDataRows(
    accepted.map(({ fact }) => fact),
    encrypted,
  )
  return rows.length > 0 ? [writePersonalData(q, rows)] : []
}

/** Statements for charges and the spend that they change. */
export const writeCharges = (q: Queries, { charges }: Changes) => {
  const reversals = charges.filter(({ kind }) => kind === 'reversal')
  return [
    ...(reversals.length > 0 ? [CommandSpendPeriods.lock(q, reversals, chargedPeriods(charges))] : []),
    ...(charges.length > 0 ? [appendAndRefund(q, charges)] : []),
  ]
}
