import type { ExpiredReason, RejectedReason, UndeliveredReason } from './fact.ts'

/** What is asked of a message, in the imperative. `at` is milliseconds since the epoch; no command reads a clock. */

/** Claim the message for one attempt at the operator. */
export interface HandOver {
  readonly type: 'HandOver'
  readonly epoch: number
  readonly operator: string
  /**
   * The operator recognises our reference, so that a claim whose answer was lost may be repeated. Absent: it does not.
   */
  readonly dedupes?: boolean
  readonly at: number
}
/** The operator took it. */
export interface RecordSubmitted {
  readonly type: 'RecordSubmitted'
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
  readonly reportDeadline: number
  readonly at: number
}
/** The operator said "not now". */
export interface RecordRefusal {
  readonly type: 'RecordRefusal'
  readonly retryAt: number
  readonly at: number
}
/** The operator will never take it. */
export interface RecordRejection {
  readonly type: 'RecordRejection'
  readonly reason: RejectedReason | UndeliveredReason
  readonly at: number
}
/**
 * The answer to a hand-over is lost for good (the process or the connection died in between) and the operator does not
 * dedupe, or the lifetime leaves no room for another attempt: the message counts as sent.
 * Source: contract, Message (unknown outcome).
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
/** A delivery report. */
export interface RecordReport {
  readonly type: 'RecordReport'
  readonly outcome: ReportOutcome
  readonly at: number
}
/** The recipient read it. */
export interface RecordReadReceipt {
  readonly type: 'RecordReadReceipt'
  readonly at: number
}
/** A deadline has passed: the lifetime before hand-over, or the report deadline after it. */
export interface PassDeadline {
  readonly type: 'PassDeadline'
  readonly at: number
}
export type MessageCommand =
  | HandOver
  | RecordSubmitted
  | RecordRefusal
  | RecordRejection
  | AssumeSent
  | RecordReport
  | RecordReadReceipt
  | PassDeadline
