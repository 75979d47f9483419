/**
 * The SQL of the moments in which the rebuilt tables meet the live ones: the live projection held at its positions, and the swap. Whoever reads or
 * writes meanwhile waits for a moment and finds the old table or the new one.
 */
import { type Queries, ReadCheckpoints } from '@hub/store'
import type { Checkpoint } from '../tables/all.ts'
import type { Horizon } from './horizon.ts'
import { NIL, uuidFloor } from './horizon.ts'

/** For how long the live projection's transactions under way are waited for. They take some tens of milliseconds. */
const PROJECTION_WITHIN = '2s'

/** Vacuums are waited for so long; longer than PostgreSQL needs to call an automatic one off (`deadlock_timeout`, 1 s). */
const MAINTENANCE_WITHIN = '3s'

/**
 * For how long all readers together are waited for, who in turn wait behind us. Shorter than PostgreSQL's `deadlock_timeout` of 1 s: should
 * a reader of two tables and the swap wait for each other, it is the swap that gives up.
 */
const READERS_WITHIN = '800ms'

/** What a statement gets otherwise. */
const STATEMENT_WITHIN = '10s'

/** Where the live projection stands, now. */
export const livePositions = async (q: Queries): Promise<ReadonlyArray<Checkpoint>> =>
  positionsOf(await rowsOf(q, q``))

/** The same, held until the transaction ends: no poll is applied meanwhile, and no partition changes hands. */
export const holdLive = async (q: Queries): Promise<ReadonlyArray<Checkpoint>> => {
  await q`SELECT set_config('lock_timeout', ${PROJECTION_WITHIN}, true)`
  return positionsOf(await rowsOf(q, q`FOR UPDATE`))
}

interface Row {
  readonly topic: string
  readonly partition: number
  readonly position: string
  readonly epoch: string
  readonly fence: string
}
// In the order in which the projectors take them.
const rowsOf = (q: Queries, suffix: ReturnType<Queries>) => q<Row[]>`
  SELECT topic, partition, position, epoch, fence FROM read.checkpoints WHERE projection = ${ReadCheckpoints.PROJECTION}
   ORDER BY topic, partition ${suffix}`
const positionsOf = (rows: ReadonlyArray<Row>): ReadonlyArray<Checkpoint> =>
  rows.map((row) => ({
    topic: row.topic,
    partition: row.partition,
    position: Number(row.position),
    epoch: Number(row.epoch),
    fence: Number(row.fence),
  }))

/** When the position of a partition last moved: its last record was applied then. Milliseconds since the epoch. */
export const lastApplied = async (q: Queries): Promise<ReadonlyMap<string, number>> => {
  const rows = await q<{ topic: string; partition: number; updated_at: Date }[]>`
    SELECT topic, partition, updated_at FROM read.checkpoints WHERE projection = ${ReadCheckpoints.PROJECTION}`
  return new Map(rows.map((row) => [`${row.topic}/${row.partition}`, row.updated_at.getTime()]))
}

/** Rows of a step. */
const CARRIED_A_STEP = 5000

/**
 * Copies sums from before the horizon, which no longer change, a step of batches at a time behind `after`. Answers where the next one goes
 * on; `null`: all are there.
 */
export const carryBatches = async (q: Queries, before: number, after: string): Promise<string | null> => {
  const [row] = await q<{ last: string | null }[]>`
    WITH stretch AS MATERIALIZED (
      SELECT * FROM read.batches WHERE id > ${after} AND id < ${uuidFloor(before)} ORDER BY id LIMIT ${CARRIED_A_STEP}),
    carried AS (INSERT INTO rebuild.batches SELECT * FROM stretch ON CONFLICT DO NOTHING)
    SELECT (SELECT id FROM stretch ORDER BY id DESC LIMIT 1) AS last`
  return row?.last ?? null
}
export const FIRST = NIL

export const carryStats = async (q: Queries, before: number): Promise<void> => {
  await q`SELECT set_config('statement_timeout', '60s', true)`
  await q`
    INSERT INTO rebuild.daily_stats SELECT * FROM read.daily_stats WHERE day < ${new Date(before).toISOString().slice(0, 10)}
    ON CONFLICT DO NOTHING`
}

/** Makes the new tables ready to be read: statistics for the planner, and room for the months that were made meanwhile. */
export const prepareSwap = async (q: Queries): Promise<void> => {
  await q`SELECT set_config('statement_timeout', '30min', true)`
  await q`SELECT command.extend_rebuild()`
  await q`ANALYZE rebuild.messages, rebuild.message_history, rebuild.operator_ids, rebuild.batches, rebuild.daily_stats`
}

const TABLES = ['messages', 'message_history', 'operator_ids', 'batches', 'daily_stats']
const live = (q: Queries) => {
  const [first, ...rest] = TABLES.map((table) => q`${q(`read.${table}`)}`)
  return rest.reduce((list, table) => q`${list}, ${table}`, first ?? q``)
}

/** Keeps away who changes tables: vacuum, retention, new months. Readers and writers do not notice. To be called first. */
export const holdMaintenance = async (q: Queries): Promise<void> => {
  await q`SELECT set_config('lock_timeout', ${MAINTENANCE_WITHIN}, true)`
  await q`
    SELECT 1 FROM command.retention_jobs WHERE job = ANY (${['messages', 'operator_ids', 'batches', 'partitions']})
     ORDER BY job FOR UPDATE`
  await q`LOCK TABLE ${live(q)} IN SHARE UPDATE EXCLUSIVE MODE`
}

/** Swaps. To be called when both stand at the same place of the log, which they leave when this transaction ends. */
export const swap = async (q: Queries, { since }: Horizon, operatorIds: number): Promise<void> => {
  await q`SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', ${READERS_WITHIN}, true)`
  await q`LOCK TABLE ${live(q)} IN ACCESS EXCLUSIVE MODE`
  await q`SELECT set_config('statement_timeout', ${STATEMENT_WITHIN}, true)`
  await q`
    SELECT command.swap_rebuilt(${since === null ? null : new Date(since)}, ${new Date(operatorIds)})`
}
