/** `read.batches`: the read model of batches. Owner: projector. */
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

/** A query: the row of a batch (UUID). */
export const selectById = (q: Queries, id: string): SqlFragment =>
  q`SELECT * FROM read.batches WHERE id = ${id}`
