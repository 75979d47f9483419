/**
 * The records of the topics that are not facts of one message. No record carries a number or a text in the
 * clear. All times are milliseconds since the epoch; ids are the public, prefixed ones.
 */
import type {
  ExpiredReason,
  MessageFact,
  Mode,
  OpenMessageCarried,
  ReasonCode,
  RejectedReason,
  ReportOutcome,
  UndeliveredReason,
} from '@hub/domain'

/** A fence in a partition of the log: claims of a lower epoch behind it are void. */
export interface ShardOpened {
  readonly type: 'ShardOpened'
  /** The partition. */
  readonly shard: number
  /** Highest epoch seen in the partition, plus one. */
  readonly epoch: number
  /** Random nonce of the member. */
  readonly member: string
  readonly at: number
}

/** What is known of an open message, as `OpenMessageCarried` says it. */
export interface CarriedMessage extends Omit<OpenMessageCarried, 'type' | 'at'> {
  /** Recipient hash. */
  readonly recipient: string
  /** W3C trace context, where the message is traced. */
  readonly traceparent: string | null
}

/** A shard repeats what it knows of open messages, many in one record. It says nothing that the log has not said before. */
export interface OpenMessagesCarried {
  readonly type: 'OpenMessagesCarried'
  /** The partition. */
  readonly shard: number
  readonly at: number
  readonly messages: ReadonlyArray<CarriedMessage>
}

/** What the record says of one of its messages. */
export const carriedFact = (
  { at }: OpenMessagesCarried,
  { attempts, class: messageClass, messageId, operator, operatorIds, reportDeadline, sentAt }: CarriedMessage,
): OpenMessageCarried => ({
  type: 'OpenMessageCarried',
  messageId,
  at,
  operator,
  operatorIds,
  class: messageClass,
  attempts,
  sentAt,
  reportDeadline,
})

/** The outcome of a batch is known: nothing will join it any more. Its key is the batch's id. */
export interface BatchSealed {
  readonly type: 'BatchSealed'
  /** `bat_…` */
  readonly batch: string
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  /** Elements of the request: accepted, duplicate and rejected together. */
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly createdAt: number
  readonly at: number
}

export const SUBSCRIPTION_CHANGES = ['created', 'deleted', 'secret_rotated', 'enabled'] as const
export type SubscriptionChange = (typeof SUBSCRIPTION_CHANGES)[number]

/** A webhook subscription was changed. What it is now is in the database. */
export interface SubscriptionChanged {
  readonly type: 'SubscriptionChanged'
  readonly account: string
  readonly mode: Mode
  /** `we_…` */
  readonly subscription: string
  readonly change: SubscriptionChange
  readonly at: number
}

/** A public event, as it stands in the journal. */
export interface EventRecorded {
  readonly type: 'EventRecorded'
  /** `evt_…` */
  readonly event: string
  readonly account: string
  readonly mode: Mode
  /** Place in the journal of this account and mode; dense. */
  readonly sequence: number
  /** Public type, for example `message.delivered`. */
  readonly eventType: string
  readonly createdAt: number
  /** The event's JSON text exactly as it is served. */
  readonly body: string
}

export const REPORTED_OUTCOMES = ['delivered', 'undelivered', 'rejected', 'expired', 'seen'] as const
export type ReportedOutcome = (typeof REPORTED_OUTCOMES)[number]

/** An operator reported what became of a message. `reportOutcome` gives the outcome as the domain wants it. */
export interface DeliveryReportReceived {
  readonly type: 'DeliveryReportReceived'
  readonly operator: string
  /** The operator's id of the message or part. */
  readonly operatorId: string
  /** Our message id (`msg_…`), where the operator repeats it. */
  readonly reference: string | null
  /** Recipient hash; the record's key. */
  readonly recipient: string
  /** `seen` is a read receipt. */
  readonly outcome: ReportedOutcome
  /** For `undelivered`, `rejected` and `expired`. */
  readonly reason: Exclude<ReasonCode, 'dlr_timeout_local' | 'ttl_expired_before_submit'> | null
  /** When it happened according to the operator. */
  readonly at: number
  readonly receivedAt: number
  /** Id of the key that opens `rawSealed`. */
  readonly rawKey: string | null
  /** The operator's own words, sealed. */
  readonly rawSealed: Uint8Array | null
}

/** A recipient wrote to the hub. */
export interface InboundMessageReceived {
  readonly type: 'InboundMessageReceived'
  readonly operator: string
  readonly operatorId: string
  /** Hash of the writer's number; the record's key. */
  readonly recipient: string
  /** The hub's own short number or sender name that was written to. */
  readonly serviceAddress: string
  readonly receivedAt: number
  readonly sealingKey: string
  /** Number and text. */
  readonly sealed: Uint8Array
}

/** Everything a topic of the hub can hold. */
export type HubRecord =
  | MessageFact
  | ShardOpened
  | OpenMessagesCarried
  | BatchSealed
  | SubscriptionChanged
  | EventRecorded
  | DeliveryReportReceived
  | InboundMessageReceived

const UNDELIVERED: ReadonlyArray<string> = [
  'recipient_unreachable',
  'recipient_nonexistent',
  'recipient_blocked',
  'delivery_failed',
] satisfies ReadonlyArray<UndeliveredReason>
const REJECTED: ReadonlyArray<string> = [
  'spam_filter_content',
  'spam_filter_sender',
  'operator_rejected',
] satisfies ReadonlyArray<RejectedReason>

/**
 * The outcome of a report in the domain's words. A reason that is missing or belongs to another status becomes
 * the status's fallback (contract, Message: `delivery_failed`; `operator_rejected`; `dlr_timeout`).
 */
export const reportOutcome = (
  report: Pick<DeliveryReportReceived, 'outcome' | 'reason'>,
): ReportOutcome | { readonly status: 'seen' } => {
  const { outcome, reason } = report
  switch (outcome) {
    case 'delivered':
      return { status: 'delivered' }
    case 'seen':
      return { status: 'seen' }
    case 'undelivered':
      return {
        status: 'undelivered',
        reason:
          reason !== null && UNDELIVERED.includes(reason) ? (reason as UndeliveredReason) : 'delivery_failed',
      }
    case 'rejected':
      return {
        status: 'rejected',
        reason:
          reason !== null && REJECTED.includes(reason) ? (reason as RejectedReason) : 'operator_rejected',
      }
    case 'expired':
      return { status: 'expired', reason: 'dlr_timeout' satisfies ExpiredReason }
  }
}
