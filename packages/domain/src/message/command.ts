/** The commands of a message. `at` is the current time, milliseconds since the epoch. */
import type { ExpiredReason, RejectedReason, UndeliveredReason } from './fact.ts'

/** Claim the message for one submit to the operator. */
export interface ClaimHandover {
  readonly type: 'ClaimHandover'
  readonly epoch: number
  readonly operator: string
  /** True if the operator deduplicates, so a claim without an answer can be repeated. */
  readonly dedupes?: boolean
  /**
   * True if nothing was submitted after the last claim, and no fact says so: an earlier claim still
   * has no answer.
   */
  readonly lastUnsubmitted?: boolean
  readonly at: number
}
export interface RecordSubmitted {
  readonly type: 'RecordSubmitted'
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
  readonly reportDeadline: number
  readonly at: number
}
/**
 * The operator refused the message for now (throttled, queue full), or nothing could be submitted
 * (`submitted` is false).
 */
export interface RecordRefusal {
  readonly type: 'RecordRefusal'
  readonly submitted: boolean
  readonly retryAt: number
  readonly at: number
}
/**
 * The operator rejected the message permanently. With an undelivered reason the message becomes
 * `undelivered`; no adapter answers a submit with such a reason today.
 */
export interface RecordRejection {
  readonly type: 'RecordRejection'
  readonly reason: RejectedReason | UndeliveredReason
  readonly at: number
}
/**
 * The answer to a submit is lost (the process or the connection failed), and another submit is not
 * possible: the operator does not deduplicate, or the lifetime has ended. The message counts as
 * sent.
 */
export interface AssumeSent {
  readonly type: 'AssumeSent'
  readonly reportDeadline: number
  readonly at: number
}
export type ReportOutcome =
  | { readonly status: 'delivered' }
  | { readonly status: 'undelivered'; readonly reason: UndeliveredReason }
  | { readonly status: 'rejected'; readonly reason: RejectedReason }
  | { readonly status: 'expired'; readonly reason: Extract<ExpiredReason, 'dlr_timeout'> }
export interface RecordReport {
  readonly type: 'RecordReport'
  readonly outcome: ReportOutcome
  readonly at: number
}
export interface RecordReadReceipt {
  readonly type: 'RecordReadReceipt'
  readonly at: number
}
/** A deadline has passed: the lifetime before submit, or the report deadline after it. */
export interface PassDeadline {
  readonly type: 'PassDeadline'
  readonly at: number
}
export type MessageCommand =
  | ClaimHandover
  | RecordSubmitted
  | RecordRefusal
  | RecordRejection
  | AssumeSent
  | RecordReport
  | RecordReadReceipt
  | PassDeadline
