import type { MessageClass } from '../vocabulary.ts'
import type { ReasonCode } from './fact.ts'

/** Source: specification, Message statuses. */
export const STATUSES = ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired'] as const
export type Status = (typeof STATUSES)[number]

/** What the hub is waiting for. `handingOver`: claimed, the operator has not answered. */
export type Stage = 'queued' | 'handingOver' | 'awaitingReport' | 'final'

/** The fold of a message's facts, as the dispatcher needs it. `null` before `MessageAccepted`. */
export interface MessageState {
  readonly id: string
  /**
   * `MessageAccepted` has been folded. Until then (lanes and log are read side by side) `class` is `service` unless a
   * carried fact told it, `expiresAt` is infinite, and the message cannot be handed over.
   */
  readonly accepted: boolean
  readonly class: MessageClass
  readonly status: Status
  readonly final: boolean
  readonly reason: ReasonCode | null
  readonly stage: Stage
  /** Hand-overs begun. */
  readonly attempts: number
  /** End of the lifetime before hand-over, milliseconds since the epoch. */
  readonly expiresAt: number
  /** Not before this moment (a refused hand-over waits); 0 when at once. */
  readonly retryAt: number
  /** When it was handed over, milliseconds since the epoch. */
  readonly sentAt: number | null
  readonly reportDeadline: number | null
  readonly operator: string | null
  readonly operatorIds: ReadonlyArray<string>
  readonly seen: boolean
}

/** Before anything is known of a message. */
export const initialState: MessageState | null = null

/**
 * A status only ever rises in rank; that is the whole rule for facts that come twice or in a race, here and in the read
 * model: accepted 0, sent 1, `expired` by our own deadline 2 (a late report corrects it), every other final status 3.
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
 * Whether one status takes the place of another: when it is higher in rank, with one exception. Our own deadline is corrected to what a late
 * delivery report can say, and to nothing else. Source: contract, Message.
 */
export const supersedes = (
  next: { readonly status: Status; readonly reason: ReasonCode | null },
  before: { readonly status: Status; readonly reason: ReasonCode | null },
): boolean =>
  rank(next.status, next.reason) > rank(before.status, before.reason) &&
  (rank(before.status, before.reason) !== 2 || next.status === 'delivered' || next.status === 'undelivered')

/** `delivered`, `undelivered`, `rejected`, `expired`. Source: contract, Message. */
export const isFinal = (status: Status): boolean => status !== 'accepted' && status !== 'sent'

/** Never billed: `rejected`, and `expired` before it was handed over. Source: contract, Message. */
export const isBilled = (status: Status, reason: ReasonCode | null): boolean =>
  status !== 'rejected' && reason !== 'ttl_expired_before_submit'

/**
 * The deadline that runs now, milliseconds since the epoch: the lifetime while queued, the report deadline after
 * hand-over. `null` when none does: the message is final, or a claim awaits its answer (bounded by the operator's own
 * time limit, after which the outcome is unknown).
 */
export const deadlineOf = (state: MessageState): number | null =>
  state.stage === 'queued' ? state.expiresAt : state.stage === 'awaitingReport' ? state.reportDeadline : null

/** What is left of the lifetime at `at`, in milliseconds, never negative: the operator's validity period. */
export const remainingLifetime = (state: MessageState, at: number): number =>
  Math.max(0, state.expiresAt - at)
