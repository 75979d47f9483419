/** The state of a message in the read model: the fold of its facts. */
import type { AcceptanceForEvents, Mode, ReasonCode, Status } from '@hub/domain'

/** The part of the acceptance that later facts and events need. */
export interface Subject extends AcceptanceForEvents {
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  /** `912`; `null` for acceptances of older versions. */
  readonly numberRange: string | null
}

export interface StatusChange {
  readonly status: Status
  readonly reason: ReasonCode | null
  /** Milliseconds since the epoch. */
  readonly at: number
}

export interface MessageRow {
  /** `msg_…` */
  readonly messageId: string
  /** `null` before `MessageAccepted`: clients do not see the row, and its events wait. */
  readonly subject: Subject | null
  readonly status: Status
  readonly reason: ReasonCode | null
  /** How often a submit left the hub for the operator, as far as the hub knows. */
  readonly attempts: number
  /** The highest number of a handover claim (`HandoverStarted`). At least `attempts`. */
  readonly claims: number
  /** Whether the outcome of the last claim is not known. Then `attempts` does not count it yet. */
  readonly claimOpen: boolean
  /** Whether an operator accepted the message, whatever its result. */
  readonly acceptedByOperator: boolean
  readonly seen: boolean
  /** The latest time of a fact that changed the row; milliseconds since the epoch. */
  readonly updatedAt: number
  /**
   * When the status rose to `sent`, to `expired` with `dlr_timeout_local`, and to another final status, ms since the
   * epoch. `null`: it did not, or an earlier version stored the time (`read.earlier_history`).
   */
  readonly sentAt: number | null
  readonly timedOutAt: number | null
  readonly finalAt: number | null
}

/**
 * The changes of the status since the acceptance, in order. Each rank has one time, because a status only rises in
 * rank (`supersedes` of the domain).
 */
export const changesOf = (row: MessageRow): ReadonlyArray<StatusChange> => {
  const change = (status: Status, reason: ReasonCode | null, at: number | null) =>
    at === null ? [] : [{ status, reason, at }]
  return [
    ...change('sent', null, row.sentAt),
    ...change('expired', 'dlr_timeout_local', row.timedOutAt),
    ...change(row.status, row.reason, row.finalAt),
  ]
}
