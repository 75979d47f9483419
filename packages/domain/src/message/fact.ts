/**
 * What happens to a message, in the past tense. Facts are written to the lanes (`MessageAccepted`) and to
 * the log (all others); a message's state is the fold of its facts (`evolve`).
 *
 * No fact carries a number, a text or a variable: the recipient is a keyed hash and the payload is sealed.
 */
import type { MessageClass, Mode, Money } from '../vocabulary.ts'

/** Reason codes of `undelivered`. Source: contract, Message. */
export const UNDELIVERED_REASONS = [
  'recipient_unreachable',
  'recipient_nonexistent',
  'recipient_blocked',
  'delivery_failed',
] as const
export type UndeliveredReason = (typeof UNDELIVERED_REASONS)[number]

/** Reason codes of `rejected`. Source: contract, Message. */
export const REJECTED_REASONS = ['spam_filter_content', 'spam_filter_sender', 'operator_rejected'] as const
export type RejectedReason = (typeof REJECTED_REASONS)[number]

/** Reason codes of `expired`. Source: specification, Message statuses. */
export const EXPIRED_REASONS = ['dlr_timeout', 'dlr_timeout_local', 'ttl_expired_before_submit'] as const
export type ExpiredReason = (typeof EXPIRED_REASONS)[number]

export type ReasonCode = UndeliveredReason | RejectedReason | ExpiredReason

/** What every fact about a message says. `at` is milliseconds since the epoch. */
interface About {
  /** `msg_…` */
  readonly messageId: string
  readonly at: number
}

/** The service answers for the message from here on. It is the only fact of the lanes. */
export interface MessageAccepted extends About {
  readonly type: 'MessageAccepted'
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  /** Recipient hash: 64 hexadecimal digits. Also the record's key. */
  readonly recipient: string
  readonly template: string
  readonly sender: string
  readonly clientRef: string | null
  /** `bat_…` */
  readonly batch: string | null
  readonly parts: number
  /** What was charged at acceptance; zero in test mode. */
  readonly price: Money
  /** Names of the variables, sorted; their values are in the sealed payload only. */
  readonly variables: ReadonlyArray<string>
  /** End of the lifetime before hand-over, milliseconds since the epoch. */
  readonly expiresAt: number
  /** Id of the key that opens `sealed`. */
  readonly sealingKey: string
  readonly sealed: Uint8Array
  /** Published a second time, after a publication whose outcome was unknown. */
  readonly republished: boolean
}

/** A claim, acknowledged by the log before the operator's socket is written. */
export interface HandoverStarted extends About {
  readonly type: 'HandoverStarted'
  readonly epoch: number
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly operator: string
}

/** The operator answered "not now" (throttled, queue full): the claim is over, the message is still to be handed over. */
export interface HandoverRefused extends About {
  readonly type: 'HandoverRefused'
  /** As in its claim; absent in facts of before there was one. */
  readonly epoch?: number | null
  readonly attempt: number
  readonly retryAt: number
}

/** Handed to the operator. `operatorIds` has one id a part, in order; empty when the answer was lost. */
export interface MessageSent extends About {
  readonly type: 'MessageSent'
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
  /** When a report is no longer awaited, milliseconds since the epoch. */
  readonly reportDeadline: number
  /** Without ids, as in a claim: whoever has lost the shard cannot know what became of the message since. */
  readonly epoch?: number | null
}

export interface MessageDelivered extends About {
  readonly type: 'MessageDelivered'
}

export interface MessageUndelivered extends About {
  readonly type: 'MessageUndelivered'
  readonly reason: UndeliveredReason
}

export interface MessageRejected extends About {
  readonly type: 'MessageRejected'
  readonly reason: RejectedReason
}

export interface MessageExpired extends About {
  readonly type: 'MessageExpired'
  readonly reason: ExpiredReason
  /** But for the operator's `dlr_timeout`: as in a claim. Whoever has lost the shard cannot know what happened since. */
  readonly epoch?: number | null
}

/** A read receipt. The status stays. */
export interface MessageSeen extends About {
  readonly type: 'MessageSeen'
}

/**
 * All that is known of a message that awaits its report. It is a fact of its own where ids come after the answer was given up; repeated for
 * the log's low-water mark, it stands among others in one record (`OpenMessagesCarried`).
 */
export interface OpenMessageCarried extends About {
  readonly type: 'OpenMessageCarried'
  readonly operator: string
  readonly operatorIds: ReadonlyArray<string>
  readonly class: MessageClass
  readonly attempts: number
  readonly sentAt: number
  readonly reportDeadline: number
}

/** The facts of the log that are about one message. */
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
 * The epoch under which a fact counts, or `null` when it counts whoever says it. What a member says by itself (claims, refusals, that a
 * message was never handed over, that it assumes it was, that no report has come) is void behind the fence of another; what operators have said is true all the same.
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

/** The fact as the shard of this epoch says it. */
export const withEpoch = (fact: LogFact, epoch: number): LogFact =>
  fact.type === 'HandoverRefused' ||
  (fact.type === 'MessageSent' && fact.operatorIds.length === 0) ||
  (fact.type === 'MessageExpired' && fact.reason !== 'dlr_timeout')
    ? { ...fact, epoch }
    : fact
