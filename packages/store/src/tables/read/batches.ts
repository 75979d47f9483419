/** `read.batches`: the read model of batches. Owner: projector. */
import type { BatchProgress } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

/** The counts of a batch. Those before `delivered` are known when the batch is sealed. */
export interface CountColumns {
  readonly created_at: Date
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly delivered: number
  readonly undelivered: number
  readonly rejected_by_operator: number
  readonly expired: number
}

/** `batch`: `bat_…`. */
export const toProgress = (batch: string, row: CountColumns, closed: boolean): BatchProgress => ({
  batch,
  createdAt: row.created_at.getTime(),
  closed,
  total: row.total,
  accepted: row.accepted,
  duplicate: row.duplicate,
  rejectedAtAcceptance: row.rejected,
  delivered: row.delivered,
  undelivered: row.undelivered,
  rejectedByOperator: row.rejected_by_operator,
  expired: row.expired,
})

/** A query: the row of a batch (UUID). */
export const selectById = (q: Queries, id: string): SqlFragment =>
  q`SELECT * FROM read.batches WHERE id = ${id}`
