/** Partitions: which there are, and how one goes. */
import type { Queries } from '../sql.ts'

/**
 * For how long a partition that is to go may wait for the statements that read its table, ms; they in turn wait behind it. Then it is left to
 * a later step.
 */
const LOCK_WITHIN_MS = 500

export interface Partition {
  /** With its schema, such as `read.messages_202311`. */
  readonly table: string
  /** What stands behind the name of the whole: `202311`, `20231121`. */
  readonly period: string
}

/** The partitions of a table by period, oldest first, the default one apart. `table`: with its schema. */
export const partitionsOf = async (q: Queries, table: string): Promise<ReadonlyArray<Partition>> => {
  const rows = await q<{ table: string; period: string }[]>`
    SELECT n.nspname || '.' || c.relname AS table, substring(c.relname FROM '_([0-9]{6,8})$') AS period
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE i.inhparent = ${table}::regclass AND c.relname ~ '_[0-9]{6,8}$'
     ORDER BY period`
  return rows
}

/** Lets nothing here wait longer for others than others may wait for it. To be called before anything that changes tables. */
export const patiently = (q: Queries) => q`SELECT set_config('lock_timeout', ${`${LOCK_WITHIN_MS}ms`}, true)`

/** Drops a partition with all that is in it. */
export const drop = async (q: Queries, table: string): Promise<void> => {
  await patiently(q)
  await q`DROP TABLE IF EXISTS ${q(table)}`
}
