/** What a batch came to at acceptance. Pure. Source: specification, Rules of POST /v1/messages/batch; contract, Batch. */
import { Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { NewBatch, SendOutcome } from './pending-send.ts'

export interface BatchOutcome {
  /** `bat_…` */
  readonly id: string
  readonly owner: Owner
  readonly total: number
  readonly accepted: number
  /** Those of the accepted that are codes. */
  readonly codes: number
  readonly duplicate: number
  readonly rejected: number
  /**
   * Whether there is such a batch: something of it was accepted, or all of it was refused. A repeat that accepts nothing
   * new creates none, nor does a request that fails as a whole.
   */
  readonly exists: boolean
}

/** Failures of the hub and limits that are the whole request's: where nothing is accepted, there is no batch to tell of. */
const WHOLE: ReadonlySet<string> = new Set([
  'internal_error',
  'hub_daily_limit_reached',
  'idempotency_conflict',
])

/** `outcomes`: those that are known. */
export const batchOutcome = (batch: NewBatch, outcomes: ReadonlyArray<SendOutcome>): BatchOutcome => {
  let accepted = 0
  let codes = 0
  let duplicate = 0
  let whole = false
  for (const outcome of outcomes) {
    if (Result.isFailure(outcome)) whole ||= WHOLE.has(outcome.failure.code)
    else if (outcome.success.duplicate) duplicate++
    else {
      accepted++
      if (outcome.success.view.class === 'otp') codes++
    }
  }
  return {
    id: batch.id,
    owner: batch.owner,
    total: batch.total,
    accepted,
    codes,
    duplicate,
    rejected: batch.malformed + outcomes.length - accepted - duplicate,
    exists: accepted > 0 || (duplicate === 0 && !whole),
  }
}
