/** A message as the read model keeps it between two polls. */
import type { AcceptedMessage, Mode, ReasonCode, Status } from '@hub/domain'

/** What a row keeps of its acceptance, as far as later facts need it: whose it is, and what events tell. */
export interface Subject extends AcceptedMessage {
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
}

/** A change of status. */
export interface StatusChange {
  readonly status: Status
  readonly reason: ReasonCode | null
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** The fold of a message's facts, as far as PostgreSQL has it. */
export interface MessageRow {
  /** `msg_…` */
  readonly messageId: string
  /** `null` until `MessageAccepted` has been read: then the row is not shown, and its events wait. */
  readonly subject: Subject | null
  readonly status: Status
  readonly reason: ReasonCode | null
  /** Hand-overs begun. */
  readonly attempts: number
  /** An operator has had it, whatever became of it. */
  readonly handedOver: boolean
  readonly seen: boolean
  /** The latest moment of a fact that changed something; milliseconds since the epoch. */
  readonly updatedAt: number
  /** Changes of status whose events wait for the acceptance; empty once it is there. */
  readonly waiting: ReadonlyArray<StatusChange>
}
