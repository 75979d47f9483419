/** One message in a shard's memory, and what the shard is told about messages from outside. */
import type { QueueItem } from '@hub/actor'
import type {
  MessageAccepted,
  MessageClass,
  MessageState,
  ReasonCode,
  ReportOutcome,
  Status,
} from '@hub/domain'

/** A delivery report as the shard needs it. `offset` is its place in the partition of reports. */
export interface Report {
  readonly offset: number
  readonly operator: string
  readonly operatorId: string
  readonly reference: string | null
  readonly recipient: string
  readonly outcome: ReportOutcome | { readonly status: 'seen' }
}

/** What the read model knows of a message. */
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
 * What a report is matched by. The recipient is part of it: operators use an id again after days, and then it is somebody else's.
 * 64 bits of the hash are enough to tell two of one id apart.
 */
export const operatorKey = (operator: string, operatorId: string, recipient: string): string =>
  `${operator}\n${operatorId}\n${recipient.slice(0, 16)}`

/** The state of a finished message as far as the read model knows it; what belongs to handing it over is left out. */
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

/** A message, open or finished a short while ago. Fields change in place: there are many of them. */
export interface Message extends QueueItem {
  readonly id: string
  /** Recipient hash. */
  readonly key: string
  /** Lane and route are those of `MessageAccepted`; -1 and '' while only the log has been read. */
  lane: number
  route: string
  /** Offset of its `MessageAccepted` in the lane; -1 while it is not known. */
  laneOffset: number
  state: MessageState
  /** The envelope and the sealed payload, for as long as it may have to be handed over. */
  accepted: MessageAccepted | null
  /** Offset in the log from which recovery can tell that it was claimed, sent or finished; -1 for none. */
  evidence: number
  /** When the fact at `evidence` happened. */
  evidenceAt: number
  /** Taken from its queue: a hand-over is under way. */
  busy: boolean
  /** An earlier claim has no answer, so that a refusal now proves nothing. */
  doubtful: boolean
  /** Facts on their way to the log. */
  recording: number
  /** The read model is being asked whether it was handed over before. */
  lookingUp: boolean
  /** When `lookingUp`: how far the projector must have come for its answer to count. */
  askAt: { readonly lane: number; readonly log: number } | null
  /** Not to be handed over before; 0 when at once. Not a fact: a refusal's own time is in `state.retryAt`. */
  blockedUntil: number
  /** Answers without an outcome in a row, for the pause before the next attempt. */
  lost: number
  /** Of several parts, the operator ids whose reports are still awaited. */
  awaited: Set<string> | null
  /** Offsets of reports on some of its parts, which are in the log only when the rest has come or the message is carried. */
  heldReports: ReadonlyArray<number>
  /** Reports that came while a hand-over or a fact was under way. */
  waitingReports: ReadonlyArray<Report>
  /** When it became final, ms since the epoch; 0 while it is open. */
  finishedAt: number
}

/** There are very many messages, and nearly none of them has anything to list. */
export const NONE: ReadonlyArray<never> = []

/** A message of which nothing but its state is known; `key` is its recipient's hash. */
export const makeMessage = (id: string, key: string, state: MessageState): Message => ({
  id,
  key,
  lane: -1,
  route: '',
  laneOffset: -1,
  state,
  accepted: null,
  evidence: -1,
  evidenceAt: 0,
  busy: false,
  doubtful: false,
  recording: 0,
  lookingUp: false,
  askAt: null,
  blockedUntil: 0,
  lost: 0,
  awaited: null,
  heldReports: NONE,
  waitingReports: NONE,
  finishedAt: 0,
})
