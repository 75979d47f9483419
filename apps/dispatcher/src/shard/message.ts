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
export interface Report {
  readonly offset: number
  readonly operator: string
  readonly operatorId: string
  readonly reference: string | null
  readonly recipient: string
  readonly outcome: ReportOutcome | { readonly status: 'seen' }
}

/** A message as the read model knows it. */
export interface KnownMessage {
  /** `msg_…` */
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

/**
 * The key that matches a report to a message. It contains 64 bits of the recipient hash, because
 * operators reuse an id after days, for another recipient.
 */
export const operatorKey = (operator: string, operatorId: string, recipient: string): string =>
  `${operator}\n${operatorId}\n${recipient.slice(0, 16)}`

/** The state of a final message from the read model, without what only a handover needs. */
export const knownState = (known: KnownMessage, now: number): MessageState => ({
  id: known.id,
  accepted: true,
  class: known.class,
  status: known.status,
  final: true,
  reason: known.reason,
  stage: 'final',
  attempts: known.attempts,
  expiresAt: now,
  retryAt: 0,
  sentAt: null,
  reportDeadline: null,
  operator: known.operator,
  operatorIds: known.operatorIds,
  seen: known.seen,
})

/** An open or recently final message. Its fields change in place: there are very many messages. */
export interface Message extends QueueItem {
  readonly id: string
  /** The recipient hash. */
  readonly key: string
  /** Lane and operator of `MessageAccepted`; -1 and '' while only the log has been read. */
  lane: number
  route: string
  /** The offset of `MessageAccepted` in its lane; -1 while unknown. */
  laneOffset: number
  state: MessageState
  /** The lane record with the encrypted payload, while the message may still be handed over. */
  accepted: MessageAccepted | null
  /** The log offset of the fact from which recovery can restore the message; -1 for none. */
  recoveryOffset: number
  /** The time of the fact at `recoveryOffset`. */
  recoveryFactAt: number
  /** A handover is in progress: the message is taken from its queue. */
  inHandover: boolean
  /** An earlier claim has no answer, so a refusal of the current one proves nothing. */
  earlierClaimOpen: boolean
  /** The number of facts that Kafka has not acknowledged yet. */
  pendingAppends: number
  /** The shard waits for the read model to tell whether the message was handed over before. */
  lookupPending: boolean
  /** The offsets that the projector must have applied before a lookup answer counts. */
  lookupAfter: { readonly lane: number; readonly log: number } | null
  /** No handover before this time; 0 for none. `state.retryAt` has the time of a refusal. */
  blockedUntil: number
  /** The number of lost answers in a row. It decides the pause before the next attempt. */
  lostAnswers: number
  /** The operator ids of the parts without a report, for a message of several parts. */
  awaitedParts: Set<string> | null
  /** Pinned offsets of reports about single parts. The log does not contain these reports yet. */
  partReports: ReadonlyArray<number>
  /** Reports that arrived during a handover or an append. */
  waitingReports: ReadonlyArray<Report>
  /** When the message became final, in ms since the epoch; 0 while it is open. */
  finishedAt: number
}

/** A shared empty list: nearly no message has reports to list. */
export const NONE: ReadonlyArray<never> = []

/** Creates a message of which only the state is known. `key` is the recipient hash. */
export const makeMessage = (id: string, key: string, state: MessageState): Message => ({
  id,
  key,
  lane: -1,
  route: '',
  laneOffset: -1,
  state,
  accepted: null,
  recoveryOffset: -1,
  recoveryFactAt: 0,
  inHandover: false,
  earlierClaimOpen: false,
  pendingAppends: 0,
  lookupPending: false,
  lookupAfter: null,
  blockedUntil: 0,
  lostAnswers: 0,
  awaitedParts: null,
  partReports: NONE,
  waitingReports: NONE,
  finishedAt: 0,
})
