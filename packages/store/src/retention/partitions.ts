/** Partitions of a table: list and drop. */
import type { Queries } from '../sql.ts'

/**
 * How long a drop waits for readers of the table, ms. Later readers queue behind it, so it gives up
 * soon, and a later step tries again.
 */
const LOCK_WITHIN_MS = 500

export interface TablePartition {
  /** The qualified name, such as `read.messages_202311`. */
  readonly table: string
  /** The suffix after the name of the partitioned table: `202311`, `20231121`. */
  readonly period: string
}

/** The partitions of a table, oldest first, without the default partition. */
export const partitionsOf = async (q: Queries, table: string): Promise<ReadonlyArray<TablePartition>> => {
  const rows = await q<{ table: string; period: string }[]>`
    SELECT n.nspname || '.' || c.relname AS table, substring(c.relname FROM '_([0-9]{6,8})$') AS period
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE i.inhparent = ${table}::regclass AND c.relname ~ '_[0-9]{6,8}$'
     ORDER BY period`
  return rows
}

/** Bounds how long the transaction waits for locks. Call it before a change of tables. */
export const limitLockWait = (q: Queries) =>
  q`SELECT set_config('lock_timeout', ${`${LOCK_WITHIN_MS}ms`}, true)`

/** Drops a partition with its rows. */
export const dropPartition = async (q: Queries, table: string): Promise<void> => {
  await limitLockWait(q)
  await q`DROP TABLE IF EXISTS ${q(table)}`
}
