/** Builds complete records to append. Only this file decides on their topic, key and id. */
import {
  factId,
  factIdOf,
  type LogFact,
  type MessageAccepted,
  type MessageClass,
  type Mode,
} from '@hub/domain'
import type { OutgoingRecord } from '../port.ts'
import type { TopicNames } from '../topics/catalogue.ts'
import { encodeRecord } from './codec.ts'
import type {
  BatchSealed,
  DatabaseAccepted,
  DeliveryReportReceived,
  EventRecorded,
  HubRecord,
  InboundMessageReceived,
  MessageOutcome,
  OpenMessagesCarried,
  OperatorAnswerReceived,
  RecipientErased,
  SealingKeyCreated,
  ShardOpened,
  SubscriptionChanged,
} from './records.ts'

interface RecordOptions {
  /** W3C trace context. */
  readonly traceparent?: string
  readonly tracestate?: string
  /** The partition. Absent: the key selects it. */
  readonly partition?: number
}

const outgoing = (
  record: HubRecord,
  fields: Pick<OutgoingRecord, 'topic' | 'key' | 'id' | 'occurredAt'>,
  { partition, traceparent, tracestate }: RecordOptions = {},
): OutgoingRecord => ({
  ...fields,
  type: record.type,
  value: encodeRecord(record),
  ...(traceparent === undefined ? {} : { traceparent }),
  ...(tracestate === undefined ? {} : { headers: { tracestate } }),
  ...(partition === undefined ? {} : { partition }),
})

/** For the lane of its class. Key: the recipient hash. */
export const acceptedRecord = (
  topics: TopicNames,
  fact: MessageAccepted,
  options?: RecordOptions,
): OutgoingRecord =>
  outgoing(
    fact,
    {
      topic: fact.class === 'otp' ? topics.acceptedOtp : topics.acceptedService,
      key: fact.recipient,
      id: factIdOf(fact),
      occurredAt: fact.at,
    },
    options,
  )

/** A fact for the log. Key: the recipient hash, which these facts do not contain. */
export const logRecord = (
  topics: TopicNames,
  fact: LogFact,
  recipient: string,
  options?: RecordOptions,
): OutgoingRecord =>
  outgoing(fact, { topic: topics.messages, key: recipient, id: factIdOf(fact), occurredAt: fact.at }, options)

/** A record about a shard, for its log partition. `what` distinguishes the records of the shard. */
const shardRecord = (
  topics: TopicNames,
  record: ShardOpened | OpenMessagesCarried,
  what: string,
): OutgoingRecord => {
  const key = `shard:${record.shard}`
  return outgoing(
    record,
    { topic: topics.messages, key, id: factId(key, what), occurredAt: record.at },
    { partition: record.shard },
  )
}

/** A fence. */
export const shardOpenedRecord = (topics: TopicNames, record: ShardOpened): OutgoingRecord =>
  shardRecord(topics, record, `opened:${record.epoch}:${record.member}`)

/** Open messages that a shard re-appends. */
export const openMessagesCarriedRecord = (topics: TopicNames, record: OpenMessagesCarried): OutgoingRecord =>
  shardRecord(topics, record, `carried:${record.at}:${record.messages[0]?.messageId}`)

/** The end of a batch, for the log. Key: the batch id. */
export const batchSealedRecord = (topics: TopicNames, record: BatchSealed): OutgoingRecord =>
  outgoing(record, {
    topic: topics.messages,
    key: record.batch,
    id: factId(record.batch, 'sealed'),
    occurredAt: record.at,
  })

/** The key of `hub.webhooks.v1`: the records of an account and mode have one order. */
export const webhooksKey = (account: string, mode: Mode): string => `${account}:${mode}`

/** A change of a subscription, for `hub.webhooks.v1`. */
export const subscriptionChangedRecord = (topics: TopicNames, record: SubscriptionChanged): OutgoingRecord =>
  outgoing(record, {
    topic: topics.webhooks,
    key: webhooksKey(record.account, record.mode),
    id: factId(record.subscription, `${record.change}:${record.at}`),
    occurredAt: record.at,
  })

/** An event, for `hub.webhooks.v1`. The record id is the event id. */
export const eventRecordedRecord = (
  topics: TopicNames,
  record: EventRecorded,
  options?: RecordOptions,
): OutgoingRecord =>
  outgoing(
    record,
    {
      topic: topics.webhooks,
      key: webhooksKey(record.account, record.mode),
      id: record.event,
      occurredAt: record.createdAt,
    },
    options,
  )

/** A report or an inbound message. The same statement of an operator has the same record id. */
const operatorRecord = (
  topics: TopicNames,
  record: DeliveryReportReceived | InboundMessageReceived,
  what: string,
): OutgoingRecord =>
  outgoing(record, {
    topic: topics.operatorReports,
    key: record.recipient,
    id: factId(`${record.operator}:${record.operatorId}`, what),
    occurredAt: record.receivedAt,
  })

export const deliveryReportRecord = (topics: TopicNames, record: DeliveryReportReceived): OutgoingRecord =>
  operatorRecord(topics, record, `report:${record.outcome}`)

export const inboundMessageRecord = (topics: TopicNames, record: InboundMessageReceived): OutgoingRecord =>
  operatorRecord(topics, record, 'inbound')

/** A payload key, for the topic of its class. The topic has one partition. */
export const payloadKeyRecord = (
  topics: TopicNames,
  messageClass: MessageClass,
  record: SealingKeyCreated,
): OutgoingRecord =>
  outgoing(
    record,
    {
      topic: messageClass === 'otp' ? topics.otpKeys : topics.serviceKeys,
      key: record.keyId,
      id: factId(record.keyId, 'created'),
      occurredAt: record.at,
    },
    { partition: 0 },
  )

/** An erasure. The topic keeps the last record of a recipient. */
export const recipientErasedRecord = (topics: TopicNames, record: RecipientErased): OutgoingRecord =>
  outgoing(
    record,
    {
      topic: topics.erasures,
      key: record.recipient,
      id: factId(record.erasure, `erased:${record.before}`),
      occurredAt: record.requestedAt,
    },
    { partition: 0 },
  )

/** The database of the hub. All records have one key, so the topic keeps the last one. */
export const databaseAcceptedRecord = (topics: TopicNames, record: DatabaseAccepted): OutgoingRecord =>
  outgoing(
    record,
    {
      topic: topics.database,
      key: 'database',
      id: factId(record.database, `accepted:${record.at}`),
      occurredAt: record.at,
    },
    { partition: 0 },
  )

/** The outcome of a message. The topic keeps the last record of a message. */
export const messageOutcomeRecord = (topics: TopicNames, record: MessageOutcome): OutgoingRecord =>
  outgoing(record, {
    topic: topics.outcomes,
    key: record.messageId,
    id: factId(record.messageId, `outcome:${record.finalStatus}`),
    occurredAt: record.finalAt,
  })

/** An operator's answer to a submit. `number` distinguishes the answers of one moment. */
export const operatorAnswerRecord = (
  topics: TopicNames,
  record: OperatorAnswerReceived,
  number: number,
): OutgoingRecord =>
  outgoing(record, {
    topic: topics.operatorReports,
    key: record.recipient,
    id: factId(record.messageId, `answer:${record.operator}:${record.receivedAt}:${number}`),
    occurredAt: record.receivedAt,
  })
