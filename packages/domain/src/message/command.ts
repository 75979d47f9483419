import type { ExpiredReason, RejectedReason, UndeliveredReason } from './fact.ts'

/** Claim the message for one attempt at the operator. */
export interface HandOver {
  readonly type: 'HandOver'
  readonly epoch: number
  readonly operator: string
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
  | RecordReport
  | RecordReadReceipt
  | PassDeadline
