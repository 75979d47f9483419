/**
 * SQL of the swap: copies old aggregates, locks the live tables, and exchanges them with the
 * rebuilt tables, while readers and writers wait for a moment.
 */
import { CommandRetentionJobs, type Queries, uuidFloor } from '@hub/store'
import { lockAllCheckpoints } from '../tables/checkpoints.ts'
import type { Horizon } from './horizon.ts'

/** How long to wait for transactions of the live projection, of some tens of milliseconds each. */
const PROJECTION_WITHIN = '2s'

/** Longer than PostgreSQL needs to cancel an automatic vacuum (`deadlock_timeout`, 1 s). */
const MAINTENANCE_WITHIN = '3s'

/**
 * How long to wait for all readers together; new readers queue behind this lock. It is shorter than
 * PostgreSQL's `deadlock_timeout` (1 s): in a deadlock the swap gives up.
 */
const READERS_WITHIN = '800ms'

/** The usual statement timeout. */
const STATEMENT_WITHIN = '10s'

/** Stops the live projection until the transaction ends, and returns its checkpoints. */
export const stopLiveProjection = async (q: Queries) => {
  await q`SELECT set_config('lock_timeout', ${PROJECTION_WITHIN}, true)`
  return lockAllCheckpoints(q)
}

/** Rows of one step. */
const COPIED_ROWS_PER_STEP = 5000

/**
 * Copies the next batches with ids after `after` from before the horizon, which no longer change.
 * Returns the `after` of the next step, or `null` at the end.
 */
export const copyBatches = async (q: Queries, before: number, after: string): Promise<string | null> => {
  const [row] = await q<{ last: string | null }[]>`
    WITH step AS MATERIALIZED (
      SELECT * FROM read.batches WHERE id > ${after} AND id < ${uuidFloor(before)} ORDER BY id
       LIMIT ${COPIED_ROWS_PER_STEP}),
    copied AS (INSERT INTO rebuild.batches SELECT * FROM step ON CONFLICT DO NOTHING)
    SELECT (SELECT id FROM step ORDER BY id DESC LIMIT 1) AS last`
  return row?.last ?? null
}

/** Copies the statistics from before the horizon, which is the start of a day. */
export const copyStats = async (q: Queries, before: number): Promise<void> => {
  await q`SELECT set_config('statement_timeout', '60s', true)`
  await q`
    INSERT INTO rebuild.daily_stats
    SELECT * FROM read.daily_stats WHERE day < ${new Date(before).toISOString().slice(0, 10)}
    ON CONFLICT DO NOTHING`
  await q`
    INSERT INTO rebuild.hourly_stats
    SELECT * FROM read.hourly_stats WHERE hour < ${new Date(before)}
    ON CONFLICT DO NOTHING`
  await q`
    INSERT INTO rebuild.range_stats
    SELECT * FROM read.range_stats WHERE hour < ${new Date(before)}
    ON CONFLICT DO NOTHING`
}

/** Prepares the rebuilt tables: partitions of new months, statistics for the planner. */
export const prepareSwap = async (q: Queries): Promise<void> => {
  await q`SELECT set_config('statement_timeout', '30min', true)`
  await q`SELECT command.extend_rebuild()`
  await q`ANALYZE rebuild.messages, rebuild.operator_ids, rebuild.batches, rebuild.daily_stats, rebuild.hourly_stats,
                  rebuild.range_stats`
}

const TABLES = [
  'messages',
  'earlier_history',
  'operator_ids',
  'batches',
  'daily_stats',
  'hourly_stats',
  'range_stats',
]
const liveTables = (q: Queries) => {
  const [first, ...rest] = TABLES.map((table) => q`${q(`read.${table}`)}`)
  return rest.reduce((list, table) => q`${list}, ${table}`, first ?? q``)
}

/** Locks out vacuum, retention and new partitions. Call it first. */
export const lockOutMaintenance = async (q: Queries): Promise<void> => {
  await q`SELECT set_config('lock_timeout', ${MAINTENANCE_WITHIN}, true)`
  await CommandRetentionJobs.lock(q, ['messages', 'operator_ids', 'batches', 'hourly_stats', 'partitions'])
  await q`LOCK TABLE ${liveTables(q)} IN SHARE UPDATE EXCLUSIVE MODE`
}

/** Exchanges the tables. Call it while both stay at the same positions. */
export const swapTables = async (q: Queries, { since }: Horizon, operatorIdsFrom: number): Promise<void> => {
  await q`SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', ${READERS_WITHIN}, true)`
  await q`LOCK TABLE ${liveTables(q)} IN ACCESS EXCLUSIVE MODE`
  await q`SELECT set_config('statement_timeout', ${STATEMENT_WITHIN}, true)`
  await q`
    SELECT command.swap_rebuilt(${since === null ? null : new Date(since)}, ${new Date(operatorIdsFrom)})`
}
