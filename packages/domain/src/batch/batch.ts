/** The public view of a batch, also in `batch.completed`. Source: BAT-11, BAT-12. */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import { toTimestamp } from '../values/timestamp.ts'

/** `accepted` includes final messages. `rejected` includes refusals at acceptance. */
export interface BatchCounts {
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly delivered: number
  readonly undelivered: number
  readonly expired: number
}

interface BatchObject {
  /** `bat_…` */
  readonly id: string
  readonly object: 'batch'
  readonly created_at: string
  /** True once every accepted message is final. It never becomes false again. */
  readonly closed: boolean
  readonly counts: BatchCounts
}

/** The counts behind the view: the acceptance, and the current final statuses. */
export interface BatchProgress {
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

export const batchObject = (progress: BatchProgress): BatchObject => ({
  id: progress.batch,
  object: 'batch',
  created_at: toTimestamp(progress.createdAt),
  closed: progress.closed,
  counts: {
    total: progress.total,
    accepted: progress.accepted,
    duplicate: progress.duplicate,
    rejected: progress.rejectedAtAcceptance + progress.rejectedByOperator,
    delivered: progress.delivered,
    undelivered: progress.undelivered,
    expired: progress.expired,
  },
})

/**
 * Makes the only `batch.completed` event of a batch. Its id depends on the batch alone, so repeated
 * calls give the same id. Source: BAT-13.
 */
export const batchCompleted = (progress: BatchProgress): PublicEvent<BatchObject, 'batch.completed'> => ({
  id: eventIdOf(progress.batch, 'batch.completed'),
  type: 'batch.completed',
  object: batchObject(progress),
})
