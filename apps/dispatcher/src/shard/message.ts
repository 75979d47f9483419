/** One message in the memory of a shard, and the data about messages that comes from outside. */
import type { QueueItem } from '@hub/actor'
import type {
  MessageAccepted,
  MessageClass,
  MessageState,
  Mode,
  ReasonCode,
  ReportOutcome,
  Status,
} from '@hub/domain'
import type { Submission } from '@hub/operator'

/** A delivery report. `offset` is its offset in the partition of the reports. */
export interface DeliveryReport {
  readonly offset: number
  readonly operator: string
  readonly operatorId: string
  readonly reference: string | null
  readonly recipient: string
  /** When Kafka stored it, ms since the epoch. */
  readonly receivedAt: number
  readonly outcome: ReportOutcome | { readonly status: 'seen' }
}

export interface ReadModelMessage {
  readonly id: string
  readonly recipient: string
  readonly class: MessageClass
  readonly status: Status
  readonly reason: ReasonCode | null
  readonly attempts: number
  readonly seen: boolean
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
}

/**
 * The submit request of a message, with the decrypted payload. It exists only until the operator's
 * answer: nothing else in memory contains phone numbers or texts.
 */
export interface PreparedSubmission {
  /** The rest of the time to live is known only when the request leaves. */
  readonly request: Omit<Submission, 'validitySeconds'>
  readonly acceptedAt: number
  readonly expiresAt: number
  readonly mode: Mode
}

/** What became of the preparation of a submit. */
export type Preparation =
  | { readonly type: 'prepared'; readonly submission: PreparedSubmission }
  | { readonly type: 'retryLater'; readonly afterMs: number }
  /** The payload is damaged although its key is right. The message waits until its lifetime ends. */
  | { readonly type: 'damaged' }
  /** Retention has destroyed the payload key. Nothing else makes a payload unreadable for ever. */
  | { readonly type: 'destroyed' }

/**
 * The key that matches a report to a message. It contains 64 bits of the recipient hash, because
 * operators reuse an id after days, for another recipient.
 */
export const operatorKey = (operator: string, operatorId: string, recipient: string): string =>
  `${operator}\n${operatorId}\n${recipient.slice(0, 16)}`

/** The state of a final message from the read model, without what only a handover needs. */
export const readModelState = (known: ReadModelMessage, now: number): MessageState => ({
  id: known.id,
  accepted: true,
  class: known.class,
  status: known.status,
  final: true,
  reason: known.reason,
  stage: 'final',
  parts: null,
  attempts: known.attempts,
  unsubmitted: 0,
  expiresAt: now,
  retryAt: 0,
  sentAt: null,
  reportDeadline: null,
  operator: known.operator,
  operatorIds: known.operatorIds,
  seen: known.seen,
})

/** A shared empty list: nearly no message has reports to list. */
export const EMPTY: ReadonlyArray<never> = []

/** An open or recently final message. Its fields change in place: there are very many messages. */
export class Message implements QueueItem {
  readonly id: string
  /** The recipient hash. */
  readonly key: string
  /** Lane and operator of `MessageAccepted`; -1 and '' while only the log has been read. */
  lane = -1
  route = ''
  /** The offset of `MessageAccepted` in its lane; -1 while unknown. */
  laneOffset = -1
  state: MessageState
  /** `MessageAccepted` with the encrypted payload, while the message may still be submitted. */
  laneRecord: MessageAccepted | null = null
  /** The log offset of the fact from which recovery can restore the message; -1 for none. */
  recoveryOffset = -1
  recoveryFactAt = 0
  /**
   * The time of the first claim that the operator may have got, in ms since the epoch. `null`: there is
   * none, or only a re-append was read.
   */
  claimedAt: number | null = null
  /** A handover is in progress: the message is taken from its queue. */
  inHandover = false
  /** An earlier claim has no answer, so a refusal of the current one proves nothing. */
  earlierClaimOpen = false
  /** Nothing was submitted after the last claim, and no fact says so. The next claim does. */
  lastClaimUnsubmitted = false
  /** The number of facts that Kafka has not acknowledged yet. */
  pendingAppends = 0
  /** The shard waits for the read model to tell whether the message was sent or finished before. */
  lookupPending = false
  /** The offsets that the projector must have applied before a lookup answer counts. */
  lookupAfter: { readonly lane: number; readonly log: number } | null = null
  /** No handover before this time; 0 for none. `state.retryAt` has the time of a refusal. */
  blockedUntil = 0
  /** The number of lost answers in a row. It decides the pause before the next attempt. */
  lostAnswers = 0
  /** The operator ids of the parts without a report, for a message of several parts. */
  awaitedParts: Set<string> | null = null
  /** Pinned offsets of reports about single parts. The log does not contain these reports yet. */
  partReports: ReadonlyArray<number> = EMPTY
  /** Reports that arrived during a handover or an append. */
  waitingReports: ReadonlyArray<DeliveryReport> = EMPTY
  /** When the message became final, in ms since the epoch; 0 while it is open. */
  finishedAt = 0

  constructor(id: string, key: string, state: MessageState) {
    this.id = id
    this.key = key
    this.state = state
  }

  /** The account of a waiting message. Elsewhere nobody needs it, and open messages are many. */
  get account(): string {
    return this.laneRecord?.account ?? ''
  }
}
