/** The state of a message, and the rules of its statuses. */
import type { MessageClass } from '../values/classification.ts'
import type { ReasonCode } from './fact.ts'

/** Source: MSG-24. */
export const STATUSES = ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired'] as const
export type Status = (typeof STATUSES)[number]
export const isStatus = (value: string): value is Status =>
  (STATUSES as ReadonlyArray<string>).includes(value)

/** What the message waits for. `claimed`: the answer to its handover claim. */
type Stage = 'queued' | 'claimed' | 'awaitingReport' | 'final'

/** The state of a message, folded from its facts; `null` before the first fact. */
export interface MessageState {
  readonly id: string
  /**
   * True once `MessageAccepted` is folded. Lanes and log are read concurrently, so a fact of the
   * log can come first. Until then `class` is `service` unless a re-appended fact contains it,
   * `expiresAt` is infinite, and the message cannot be submitted.
   */
  readonly accepted: boolean
  readonly class: MessageClass
  readonly status: Status
  readonly final: boolean
  readonly reason: ReasonCode | null
  readonly stage: Stage
  /** The number of parts. `null`: no fact contains it, so it is one, or not known. */
  readonly parts: number | null
  /** The number of handover claims. */
  readonly attempts: number
  /**
   * The number of claims after which nothing was submitted: a pause, no connection, or no lease. 0
   * after the submit, when no further claim follows.
   */
  readonly unsubmitted: number
  /** End of the lifetime before submit, milliseconds since the epoch. */
  readonly expiresAt: number
  /** Earliest next submit after a refusal, milliseconds since the epoch. 0: at once. */
  readonly retryAt: number
  /** Time of the submit, milliseconds since the epoch. */
  readonly sentAt: number | null
  readonly reportDeadline: number | null
  readonly operator: string | null
  readonly operatorIds: ReadonlyArray<string>
  readonly seen: boolean
}

/**
 * The rank of a status. A status can only rise in rank. This one rule handles repeated and
 * competing facts, here and in the read model: accepted 0, sent 1, expired by the hub's own
 * deadline 2, every other final status 3.
 */
export const rank = (status: Status, reason: ReasonCode | null): 0 | 1 | 2 | 3 =>
  status === 'accepted'
    ? 0
    : status === 'sent'
      ? 1
      : status === 'expired' && reason === 'dlr_timeout_local'
        ? 2
        : 3

/**
 * Returns true if one status replaces another: if its rank is higher, with one restriction. Only
 * `delivered` and `undelivered` replace `dlr_timeout_local`, because they come from a late report. Source:
 * MSG-25, MSG-26.
 */
export const supersedes = (
  next: { readonly status: Status; readonly reason: ReasonCode | null },
  before: { readonly status: Status; readonly reason: ReasonCode | null },
): boolean =>
  rank(next.status, next.reason) > rank(before.status, before.reason) &&
  (rank(before.status, before.reason) !== 2 || next.status === 'delivered' || next.status === 'undelivered')

/** Source: MSG-24. */
export const isFinal = (status: Status): boolean => status !== 'accepted' && status !== 'sent'

/** Whether the message is billed. Source: LIM-15. */
export const isBilled = (status: Status, reason: ReasonCode | null): boolean =>
  status !== 'rejected' && reason !== 'ttl_expired_before_submit'

/**
 * Returns the current deadline in milliseconds since the epoch: end of the lifetime while queued,
 * report deadline after submit. Returns `null` for a final message and while the operator's answer
 * is outstanding (the operator adapter limits that time).
 */
export const deadlineOf = (state: MessageState): number | null =>
  state.stage === 'queued' ? state.expiresAt : state.stage === 'awaitingReport' ? state.reportDeadline : null
