import type { MessageClass } from '../shared.ts'
import type { ReasonCode } from './fact.ts'

/** Source: specification, Message statuses. */
export const STATUSES = ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired'] as const
export type Status = (typeof STATUSES)[number]

/** What the hub is waiting for. `handingOver`: claimed, the operator has not answered. */
export type Stage = 'queued' | 'handingOver' | 'awaitingReport' | 'final'

/** The fold of a message's facts, as the dispatcher needs it. `null` before `MessageAccepted`. */
export interface MessageState {
  readonly id: string
  readonly class: MessageClass
  readonly status: Status
  readonly final: boolean
  readonly reason: ReasonCode | null
  readonly stage: Stage
  /** Hand-overs begun. */
  readonly attempts: number
  readonly expiresAt: number
  /** Not before this moment (a refused hand-over waits); 0 when at once. */
  readonly retryAt: number
  readonly reportDeadline: number | null
  readonly operator: string | null
  readonly operatorIds: ReadonlyArray<string>
  readonly seen: boolean
}
