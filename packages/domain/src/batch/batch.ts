/** A batch as reads and `batch.completed` show it. Source: contract, Batch. */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import { toTimestamp } from '../vocabulary.ts'

/** `rejected` counts refusals at acceptance and the status; `accepted` all that were accepted, whatever became of them. */
export interface BatchCounts {
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly delivered: number
  readonly undelivered: number
  readonly expired: number
}

export interface BatchObject {
  /** `bat_…` */
  readonly id: string
  readonly object: 'batch'
  readonly created_at: string
  /** Every accepted message is final. It never goes back. */
  readonly closed: boolean
  readonly counts: BatchCounts
}

/** What is known of a batch: its outcome at acceptance, and how many of its messages have which final status now. */
export interface BatchTally {
  /** `bat_…` */
  readonly batch: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  readonly closed: boolean
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejectedAtAcceptance: number
  readonly delivered: number
  readonly undelivered: number
  readonly rejectedByOperator: number
  readonly expired: number
}

export const batchObject = (tally: BatchTally): BatchObject => ({
  id: tally.batch,
  object: 'batch',
  created_at: toTimestamp(tally.createdAt),
  closed: tally.closed,
  counts: {
    total: tally.total,
    accepted: tally.accepted,
    duplicate: tally.duplicate,
    rejected: tally.rejectedAtAcceptance + tally.rejectedByOperator,
    delivered: tally.delivered,
    undelivered: tally.undelivered,
    expired: tally.expired,
  },
})

/** The one `batch.completed` of a batch. Its id depends on the batch alone, so it is the same however often it is made. */
export const batchCompleted = (tally: BatchTally): PublicEvent<BatchObject, 'batch.completed'> => ({
  id: eventIdOf(tally.batch, 'batch.completed'),
  type: 'batch.completed',
  object: batchObject(tally),
})
