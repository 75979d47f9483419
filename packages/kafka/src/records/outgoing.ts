/**
 * Complete records to append: topic, key, id and value follow from what is reported, in this one place.
 */
import { factId, factIdOf, type LogFact, type MessageAccepted, type Mode } from '@hub/domain'
import { encodeRecord } from './codec.ts'
import type { IncomingRecord, OutgoingRecord } from '../port.ts'
import type {
  BatchSealed,
  DeliveryReportReceived,
  EventRecorded,
  InboundMessageReceived,
  OpenMessagesCarried,
  ShardOpened,
  SubscriptionChanged,
} from './records.ts'
import { deadLetterTopic, type TopicNames } from '../topics/catalogue.ts'

/** What a record says beside its value. */
export interface RecordOptions {
  /** W3C trace context. */
  readonly traceparent?: string
  /** The shard that writes; without it the key decides. */
  readonly partition?: number
}

const envelope = ({ traceparent, partition }: RecordOptions) => ({
  ...(traceparent === undefined ? {} : { traceparent }),
  ...(partition === undefined ? {} : { partition }),
})

/** `MessageAccepted` for its class's lane. Key: the recipient hash. */
export const acceptedRecord = (
  topics: TopicNames,
  fact: MessageAccepted,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: fact.class === 'otp' ? topics.acceptedOtp : topics.acceptedService,
  key: fact.recipient,
  type: fact.type,
  id: factIdOf(fact),
  occurredAt: fact.at,
  value: encodeRecord(fact),
  ...envelope(options),
})

/** A fact for the log. Key: the recipient hash, which the facts of the log do not repeat. */
export const logRecord = (
  topics: TopicNames,
  fact: LogFact,
  recipient: string,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: topics.messages,
  key: recipient,
  type: fact.type,
  id: factIdOf(fact),
  occurredAt: fact.at,
  value: encodeRecord(fact),
  ...envelope(options),
})

/** A fence for the log's partition `record.shard`. */
export const shardOpenedRecord = (
  topics: TopicNames,
  record: ShardOpened,
  options: Omit<RecordOptions, 'partition'> = {},
): OutgoingRecord => ({
  topic: topics.messages,
  key: `shard:${record.shard}`,
  partition: record.shard,
  type: record.type,
  id: factId(`shard:${record.shard}`, `opened:${record.epoch}:${record.member}`),
  occurredAt: record.at,
  value: encodeRecord(record),
  ...envelope(options),
})

/** Open messages of the shard `record.shard`, for its partition of the log. */
export const openMessagesCarriedRecord = (
  topics: TopicNames,
  record: OpenMessagesCarried,
): OutgoingRecord => ({
  topic: topics.messages,
  key: `shard:${record.shard}`,
  partition: record.shard,
  type: record.type,
  id: factId(`shard:${record.shard}`, `carried:${record.at}:${record.messages[0]?.messageId}`),
  occurredAt: record.at,
  value: encodeRecord(record),
})

/** A batch's outcome, for the log. Key: the batch's id. */
export const batchSealedRecord = (
  topics: TopicNames,
  record: BatchSealed,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: topics.messages,
  key: record.batch,
  type: record.type,
  id: factId(record.batch, 'sealed'),
  occurredAt: record.at,
  value: encodeRecord(record),
  ...envelope(options),
})

/** The key of `hub.webhooks.v1`: everything of an account in a mode is in one order. */
export const webhooksKey = (account: string, mode: Mode): string => `${account}:${mode}`

/** A change of a subscription, for `hub.webhooks.v1`. */
export const subscriptionChangedRecord = (
  topics: TopicNames,
  record: SubscriptionChanged,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: topics.webhooks,
  key: webhooksKey(record.account, record.mode),
  type: record.type,
  id: factId(record.subscription, `${record.change}:${record.at}`),
  occurredAt: record.at,
  value: encodeRecord(record),
  ...envelope(options),
})

/** A public event, for `hub.webhooks.v1`. Its record id is the event's own. */
export const eventRecordedRecord = (
  topics: TopicNames,
  record: EventRecorded,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: topics.webhooks,
  key: webhooksKey(record.account, record.mode),
  type: record.type,
  id: record.event,
  occurredAt: record.createdAt,
  value: encodeRecord(record),
  ...envelope(options),
})

/** A delivery report. An operator that repeats a report makes the same record id. */
export const deliveryReportRecord = (
  topics: TopicNames,
  record: DeliveryReportReceived,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: topics.operatorReports,
  key: record.recipient,
  type: record.type,
  id: factId(`${record.operator}:${record.operatorId}`, `report:${record.outcome}`),
  occurredAt: record.receivedAt,
  value: encodeRecord(record),
  ...envelope(options),
})

/** An inbound message. */
export const inboundMessageRecord = (
  topics: TopicNames,
  record: InboundMessageReceived,
  options: RecordOptions = {},
): OutgoingRecord => ({
  topic: topics.operatorReports,
  key: record.recipient,
  type: record.type,
  id: factId(`${record.operator}:${record.operatorId}`, 'inbound'),
  occurredAt: record.receivedAt,
  value: encodeRecord(record),
  ...envelope(options),
})

/** Headers of a dead letter beside those of its source. */
export const DEAD_LETTER_HEADERS = {
  reason: 'dead_letter_reason',
  topic: 'source_topic',
  partition: 'source_partition',
  offset: 'source_offset',
} as const

/**
 * The same bytes for the dead-letter topic, in the same partition, with the reason and where it came from in
 * headers. `reason` is a code (`UndecodableRecord.reason`, an error's tag), never a text with content.
 */
export const deadLetterRecord = (record: IncomingRecord, reason: string): OutgoingRecord => ({
  topic: deadLetterTopic(record.topic),
  key: record.key,
  partition: record.partition,
  type: record.type,
  id: record.id,
  occurredAt: record.occurredAt,
  value: record.value,
  headers: {
    [DEAD_LETTER_HEADERS.reason]: reason,
    [DEAD_LETTER_HEADERS.topic]: record.topic,
    [DEAD_LETTER_HEADERS.partition]: String(record.partition),
    [DEAD_LETTER_HEADERS.offset]: String(record.offset),
  },
  ...(record.traceparent === null ? {} : { traceparent: record.traceparent }),
})
