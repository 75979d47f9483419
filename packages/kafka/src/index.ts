/** Kafka for the apps of the hub: append and consume records, topics, dead letters and schemas. */
export * from './port.ts'
export {
  kafkaTlsConfig,
  type KafkaConnection,
  kafkaConnectionConfig,
  type KafkaCredentials,
  type PasswordCredentials,
} from './connection/client.ts'
export { layerEventLog } from './log/event-log.ts'
export { ErasureTopic, type PublishedErasure } from './erasures/erasure-topic.ts'
export { acceptDatabase, acceptedDatabase } from './database-topic.ts'
export { layerKeysAndErasures } from './keys-and-erasures.ts'
export { layerTopicReader } from './log/topic-reader.ts'
export { PAYLOAD_KEY_PERIODS, payloadKeyGoneAt } from './payload-keys/periods.ts'
export { PayloadKeyTopics, type WrappedPayloadKey } from './payload-keys/payload-key-topics.ts'
export { kafkaCrashPoint, kafkaCrashPoints } from './crash-points.ts'
export { layerConsumer } from './consumer-layers.ts'
export { layerConsumerGroups } from './consumer/consumer-groups.ts'
export { joinWithRetry } from './consumer/join-with-retry.ts'
export {
  type AcceptedHead,
  decodeAcceptedHead,
  decodeBatchSealed,
  decodeDeliveryReportReceived,
  decodeEventRecorded,
  decodeFact,
  decodeInboundMessageReceived,
  decodeMessageOutcome,
  decodeOperatorAnswerReceived,
  decodeOpenMessagesCarried,
  decodeRecipientErased,
  decodeRecord,
  decodeSealingKeyCreated,
  decodeShardOpened,
  decodeSubscriptionChanged,
  encodeRecord,
  isFactType,
  UndecodableRecord,
} from './records/codec.ts'
export { decodeOutboxRow, encodeOutboxRow } from './records/outbox-row.ts'
export * from './records/outgoing.ts'
export * from './records/records.ts'
export {
  DEAD_LETTER_HEADERS,
  type DeadLetter,
  deadLetterRecord,
  displayContent,
  recordToRetry,
} from './dead-letters/dead-letter.ts'
export { deadLettersFrom, newestDeadLetters, readDeadLetter } from './dead-letters/read-dead-letters.ts'
export {
  readsBody,
  REGISTRY_CONTENT_TYPE,
  registryAnswer,
  subjectOf,
  withoutContext,
} from './registry/answers.ts'
export { TOPIC_CONTENT } from './schemas/analytics-reference.ts'
export { RECORD_NAMES, SCHEMAS } from './schemas/schemas.ts'
export { KafkaRequestRejected } from './topics/admin.ts'
export {
  catalogueConfig,
  deadLetterTopic,
  shardedTopics,
  topicCatalogue,
  type TopicNames,
  topicNames,
} from './topics/catalogue.ts'
export { createTopics } from './topics/create.ts'
export type { TopicDifference } from './topics/differences.ts'
export {
  alterTopics,
  compareTopics,
  describeCluster,
  describeGroup,
  readOffsetRanges,
  topicLogEnds,
} from './topics/inspect.ts'
