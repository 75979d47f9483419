/**
 * The record types that are not facts of one message. No record contains a phone number or a text
 * unencrypted. Times are milliseconds since the epoch; ids are public ids with their prefix.
 */
import {
  type ExpiredReason,
  type MessageClass,
  type MessageFact,
  type Mode,
  type OpenMessageCarried,
  type ReasonCode,
  REJECTED_REASONS,
  type ReportOutcome,
  type Status,
  UNDELIVERED_REASONS,
} from '@hub/domain'

/** A fence in a log partition: handover claims with a lower epoch behind it are void. */
export interface ShardOpened {
  readonly type: 'ShardOpened'
  readonly shard: number
  /** Highest epoch seen in the partition, plus one. */
  readonly epoch: number
  /** A random id of the member. */
  readonly member: string
  readonly at: number
}

/** An open message in a re-append record; the content of `OpenMessageCarried`. */
interface CarriedMessage extends Omit<OpenMessageCarried, 'type' | 'at'> {
  /** Recipient hash. */
  readonly recipient: string
  /** W3C trace context; `null` for a message without a trace. */
  readonly traceparent: string | null
}

/** A shard re-appends its open messages. The log contains all of this information already. */
export interface OpenMessagesCarried {
  readonly type: 'OpenMessagesCarried'
  readonly shard: number
  readonly at: number
  readonly messages: ReadonlyArray<CarriedMessage>
}

/** The fact of one message in the record. */
export const carriedFact = (
  { at }: OpenMessagesCarried,
  {
    attempts,
    class: messageClass,
    messageId,
    operator,
    operatorIds,
    parts,
    reportDeadline,
    sentAt,
  }: CarriedMessage,
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
  parts: parts ?? null,
})

/** The membership of a batch is complete. Key: the batch id. */
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

/** `updated`: the client changed its address, event types or description. */
export type SubscriptionChange = 'created' | 'deleted' | 'secret_rotated' | 'enabled' | 'updated'

/** A webhook subscription has changed. The database contains its current state. */
export interface SubscriptionChanged {
  readonly type: 'SubscriptionChanged'
  readonly account: string
  readonly mode: Mode
  /** `we_…` */
  readonly subscription: string
  readonly change: SubscriptionChange
  readonly at: number
}

/** An event of the event journal. */
export interface EventRecorded {
  readonly type: 'EventRecorded'
  /** `evt_…` */
  readonly event: string
  readonly account: string
  readonly mode: Mode
  /** The sequence number in the journal of this account and mode, without gaps. */
  readonly sequence: number
  /** Public type, for example `message.delivered`. */
  readonly eventType: string
  readonly createdAt: number
  /** The JSON text of the event, exactly as the API returns it. */
  readonly body: string
}

export type ReportedOutcome = 'delivered' | 'undelivered' | 'rejected' | 'expired' | 'seen'

/** A delivery report. `reportOutcome` converts its outcome for the domain. */
export interface DeliveryReportReceived {
  readonly type: 'DeliveryReportReceived'
  readonly operator: string
  /** The operator's id of the message or part. */
  readonly operatorId: string
  /** The message id (`msg_…`), if the operator returns it. */
  readonly reference: string | null
  /** Recipient hash; the record's key. */
  readonly recipient: string
  /** `seen` is a read receipt. */
  readonly outcome: ReportedOutcome
  /** For `undelivered`, `rejected` and `expired`. */
  readonly reason: Exclude<ReasonCode, 'dlr_timeout_local' | 'ttl_expired_before_submit'> | null
  /** The time of the outcome, by the operator's clock. */
  readonly at: number
  readonly receivedAt: number
  /** Id of the payload key of `rawCiphertext`. */
  readonly rawKey: string | null
  /** The original report, encrypted. */
  readonly rawCiphertext: Uint8Array | null
}

/** A recipient sent an SMS to the hub. */
export interface InboundMessageReceived {
  readonly type: 'InboundMessageReceived'
  readonly operator: string
  readonly operatorId: string
  /** Recipient hash of the sender; the record's key. */
  readonly recipient: string
  /** The short number or sender name of the hub that received it. */
  readonly serviceAddress: string
  readonly receivedAt: number
  readonly payloadKey: string
  /** Phone number and text, encrypted. */
  readonly ciphertext: Uint8Array
}

/** A process created a payload key. */
export interface SealingKeyCreated {
  readonly type: 'SealingKeyCreated'
  /** The id of the payload key, as `MessageAccepted.payloadKey` names it. */
  readonly keyId: string
  /** The key, encrypted with the master key. */
  readonly wrapped: Uint8Array
  readonly at: number
}

/** A person requested erasure. */
export interface RecipientErased {
  readonly type: 'RecipientErased'
  /** The id of the receipt, a UUID. */
  readonly erasure: string
  /** Recipient hash; the record's key. */
  readonly recipient: string
  readonly requestedAt: number
  /** It concerns messages accepted before this time. */
  readonly before: number
}

/** The database that the hub uses. The last record counts. */
export interface DatabaseAccepted {
  readonly type: 'DatabaseAccepted'
  /** `system identifier/object id`, as PostgreSQL knows them. */
  readonly database: string
  readonly at: number
}

/** `OperatorAnswerReceived.messageId` of a delivery that cannot be understood. */
export const NO_MESSAGE = ''

/**
 * An operator's answer to the submit of a message or of a part, or a delivery (a report or an inbound
 * message) that cannot be understood.
 * Only hub staff read it.
 */
export interface OperatorAnswerReceived {
  readonly type: 'OperatorAnswerReceived'
  readonly operator: string
  /** `NO_MESSAGE` of a delivery: its message is unknown. */
  readonly messageId: string
  /** Recipient hash; the record's key. */
  readonly recipient: string
  readonly receivedAt: number
  /** Id of the payload key of `rawCiphertext`. */
  readonly rawKey: string
  /** The original answer, encrypted. */
  readonly rawCiphertext: Uint8Array
}

/** The outcome of a message with a final status, for analysts. It has no recipient hash. */
export interface MessageOutcome {
  readonly type: 'MessageOutcome'
  /** `msg_…`; the record's key. */
  readonly messageId: string
  /** `acc_…` */
  readonly accountId: string
  readonly messageMode: Mode
  readonly messageClass: MessageClass
  readonly templateName: string
  readonly senderName: string
  /** `bat_…` */
  readonly batchId: string | null
  /** The operator that took the message last. */
  readonly operatorName: string | null
  readonly partCount: number
  readonly attemptCount: number
  readonly finalStatus: Status
  readonly reasonCode: ReasonCode | null
  /** The final charge in hundredths of the currency. */
  readonly priceHundredths: number
  readonly priceCurrency: string
  readonly acceptedAt: number
  readonly submittedAt: number | null
  readonly finalAt: number
}

/** Every record type of the hub's topics. */
export type HubRecord =
  | MessageFact
  | ShardOpened
  | OpenMessagesCarried
  | BatchSealed
  | SubscriptionChanged
  | EventRecorded
  | DeliveryReportReceived
  | InboundMessageReceived
  | OperatorAnswerReceived
  | SealingKeyCreated
  | RecipientErased
  | DatabaseAccepted
  | MessageOutcome

/**
 * The outcome of a report as a value of the domain. A reason that is missing, or belongs to another
 * status, becomes the default of the status: `delivery_failed`, `operator_rejected` or
 * `dlr_timeout`.
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
        reason: UNDELIVERED_REASONS.find((known) => known === reason) ?? 'delivery_failed',
      }
    case 'rejected':
      return {
        status: 'rejected',
        reason: REJECTED_REASONS.find((known) => known === reason) ?? 'operator_rejected',
      }
    case 'expired':
      return { status: 'expired', reason: 'dlr_timeout' satisfies ExpiredReason }
  }
}
