/**
 * `read.batches`: the read model of batches, one row for each sealed batch.
 *
 * Owner: projector. Command-api joins a row with its own, because a new batch is not projected yet.
 */
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

/** A query: the row of a batch (UUID). */
export const selectById = (q: Queries, id: string): SqlFragment =>
  q`SELECT * FROM read.batches WHERE id = ${id}`
