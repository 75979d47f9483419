/**
 * The facts of a message. `MessageAccepted` is appended to a lane, all other facts to the log.
 * `evolve` folds them into the state. No fact contains a number, a text or a variable value: the
 * recipient is a keyed hash, and the payload is encrypted.
 */
import type { MessageClass, Mode } from '../values/classification.ts'
import type { Money } from '../values/money.ts'

/** Reason codes of `undelivered`. Source: MSG-27. */
export const UNDELIVERED_REASONS = [
  /** The operator could not reach the phone. Another channel may work. */
  'recipient_unreachable',
  /** The number does not exist. A repeat fails too. */
  'recipient_nonexistent',
  /** The number is blocked. A repeat fails too. */
  'recipient_blocked',
  /** The default: the operator gave no reason that the hub knows. */
  'delivery_failed',
] as const
export type UndeliveredReason = (typeof UNDELIVERED_REASONS)[number]

/** Reason codes of `rejected`. Source: MSG-28. */
export const REJECTED_REASONS = [
  /** The operator refused the text. */
  'spam_filter_content',
  /** The operator refused the sender name, for example because it is not registered. */
  'spam_filter_sender',
  /** The default: the operator gave no reason that the hub knows. */
  'operator_rejected',
] as const
export type RejectedReason = (typeof REJECTED_REASONS)[number]

/** Reason codes of `expired`. Source: MSG-29. */
export const EXPIRED_REASONS = [
  /** The operator reports that it stopped trying. */
  'dlr_timeout',
  /** No report until the deadline of the hub. The message may have arrived. */
  'dlr_timeout_local',
  /** The lifetime ended before the submit. */
  'ttl_expired_before_submit',
] as const
export type ExpiredReason = (typeof EXPIRED_REASONS)[number]

/** The reason codes of all statuses. New ones may be added. */
export const REASON_CODES = [...UNDELIVERED_REASONS, ...REJECTED_REASONS, ...EXPIRED_REASONS] as const
export type ReasonCode = (typeof REASON_CODES)[number]

/** The fields of every fact. `at` is milliseconds since the epoch. */
interface FactBase {
  /** `msg_…` */
  readonly messageId: string
  readonly at: number
}

/** The hub is responsible for the message from now on. This is the only fact in the lanes. */
export interface MessageAccepted extends FactBase {
  readonly type: 'MessageAccepted'
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  /** Recipient hash: 64 hexadecimal digits. It is also the key of the record. */
  readonly recipient: string
  readonly template: string
  readonly sender: string
  readonly clientRef: string | null
  /** `bat_…` */
  readonly batch: string | null
  readonly parts: number
  /** The charge at acceptance. Zero in test mode. */
  readonly price: Money
  /** Names of the variables, sorted. Their values are only in the encrypted payload. */
  readonly variables: ReadonlyArray<string>
  /** End of the lifetime before submit, milliseconds since the epoch. */
  readonly expiresAt: number
  /** Id of the payload key that decrypts `ciphertext`. */
  readonly payloadKey: string
  readonly ciphertext: Uint8Array
  /** True if this is a second publication, after one with an unknown outcome. */
  readonly republished: boolean
  /** `req_…` of the send. Absent in facts of older versions, and of the reconciler. */
  readonly request?: string | null
  /** `key_…` of the send. Absent as `request` is. */
  readonly apiKey?: string | null
  /** The number range of the recipient, `912`; see `numberRangeOf`. Absent in facts of older versions. */
  readonly numberRange?: string | null
}

/** A handover claim. Kafka acknowledges it before the dispatcher submits the message. */
export interface HandoverStarted extends FactBase {
  readonly type: 'HandoverStarted'
  readonly epoch: number
  /** The number of the claim, from 1. */
  readonly attempt: number
  readonly operator: string
  /** Earlier claims after which nothing was submitted. Absent: none. */
  readonly unsubmitted?: number | null
  /** The number of parts, if there are several. Absent: one, or the fact is of an older version. */
  readonly parts?: number | null
}

/**
 * The operator refused the message for now, or nothing could be submitted. The message stays
 * queued.
 */
export interface HandoverRefused extends FactBase {
  readonly type: 'HandoverRefused'
  /** The epoch of the claim. Absent in facts of older versions. */
  readonly epoch?: number | null
  readonly attempt: number
  readonly retryAt: number
  /** Claims so far, with this one, after which nothing was submitted. Absent: none. */
  readonly unsubmitted?: number | null
}

/**
 * Submitted. `operatorIds`: one for each part, in order, or one for all parts; empty if the answer was
 * lost.
 */
export interface MessageSent extends FactBase {
  readonly type: 'MessageSent'
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
  /** The deadline for the delivery report, milliseconds since the epoch. */
  readonly reportDeadline: number
  /** Set only if `operatorIds` is empty: see `epochOf`. */
  readonly epoch?: number | null
}

export interface MessageDelivered extends FactBase {
  readonly type: 'MessageDelivered'
}

export interface MessageUndelivered extends FactBase {
  readonly type: 'MessageUndelivered'
  readonly reason: UndeliveredReason
}

export interface MessageRejected extends FactBase {
  readonly type: 'MessageRejected'
  readonly reason: RejectedReason
}

export interface MessageExpired extends FactBase {
  readonly type: 'MessageExpired'
  readonly reason: ExpiredReason
  /** Not set for `dlr_timeout`: see `epochOf`. */
  readonly epoch?: number | null
}

/** A read receipt. It does not change the status. */
export interface MessageSeen extends FactBase {
  readonly type: 'MessageSeen'
}

/**
 * The complete knowledge about a message that waits for its report. The dispatcher re-appends it so
 * that the low-water mark can move; then one record contains several of them
 * (`OpenMessagesCarried`). It is also appended alone, when the operator's ids arrive after
 * `AssumeSent`.
 */
export interface OpenMessageCarried extends FactBase {
  readonly type: 'OpenMessageCarried'
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
  readonly class: MessageClass
  readonly attempts: number
  readonly sentAt: number
  readonly reportDeadline: number
  /**
   * The number of parts, if there are several and no operator id is known. Absent: one, or not known.
   * Only `OpenMessagesCarried` contains it.
   */
  readonly parts?: number | null
}

/** The facts in the log about one message. */
export type LogFact =
  | HandoverStarted
  | HandoverRefused
  | MessageSent
  | MessageDelivered
  | MessageUndelivered
  | MessageRejected
  | MessageExpired
  | MessageSeen
  | OpenMessageCarried

export type MessageFact = MessageAccepted | LogFact

/**
 * Returns the epoch in which a fact is valid, or `null` if it is always valid. Facts that a member
 * derives itself are void behind the fence of another member, because a member that lost the shard
 * does not know what happened since: claims, refusals, an assumed submit, and deadlines of the hub.
 * Facts that the operator reported are always valid.
 */
export const epochOf = (fact: MessageFact): number | null => {
  switch (fact.type) {
    case 'HandoverStarted':
      return fact.epoch
    case 'HandoverRefused':
      return fact.epoch ?? null
    case 'MessageSent':
      return fact.operatorIds.length === 0 ? (fact.epoch ?? null) : null
    case 'MessageExpired':
      return fact.reason === 'dlr_timeout' ? null : (fact.epoch ?? null)
    default:
      return null
  }
}

/** Adds the epoch of the shard to a fact that needs one. */
export const withEpoch = (fact: LogFact, epoch: number): LogFact =>
  fact.type === 'HandoverRefused' ||
  (fact.type === 'MessageSent' && fact.operatorIds.length === 0) ||
  (fact.type === 'MessageExpired' && fact.reason !== 'dlr_timeout')
    ? { ...fact, epoch }
    : fact
