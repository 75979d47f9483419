/** `webhooks.positions`: the applied offsets of `hub.webhooks.v1`. Owner: webhook-fanout. */
import type { Queries } from '../../pool.ts'

/**
 * Whether the fan-out has applied the record at `offset`. A partition that it has never read counts
 * as applied: it starts with the current rows.
 */
export const isApplied = async (q: Queries, partition: number, offset: number): Promise<boolean> => {
  const [row] = await q<{ applied: boolean }[]>`
    SELECT position > ${offset} AS applied FROM webhooks.positions WHERE partition = ${partition}`
  return row?.applied ?? true
}

/** The next offset of each partition that the fan-out has read; -1 before its first record. */
export const readAll = async (
  q: Queries,
): Promise<ReadonlyArray<{ readonly partition: number; readonly position: number }>> =>
  q<{ partition: number; position: number }[]>`
    SELECT partition, position::float8 AS position FROM webhooks.positions`
