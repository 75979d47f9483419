export * from './port.ts'
export * from './records/codec.ts'
export * from './records/records.ts'
export {
  displayContent,
  type DeadLetter,
  type DeadLetterQuery,
  deadLettersFrom,
  newestDeadLetters,
  readDeadLetter,
  recordToRetry,
  type DisplayRecord,
} from './dead-letters/read-dead-letters.ts'
export * from './records/outgoing.ts'
export * from './registry/answers.ts'
export {
  type CatalogueOptions,
  catalogueConfig,
  createTopics,
  deadLetterTopic,
  topicCatalogue,
  type TopicDifference,
  topicEndOffsets,
  type TopicNames,
  topicNames,
  KafkaRequestRejected,
  type TopicReport,
  type TopicSpec,
} from './topics/catalogue.ts'
export {
  alterTopics,
  type ClusterState,
  compareTopics,
  type GroupState,
  describeCluster,
  describeGroup,
  readOffsetRanges,
  type TopicComparison,
  type OffsetRange,
} from './topics/inspect.ts'
export {
  RECORD_NAMES,
  SCHEMAS,
  type AvroSchema,
  type RecordName,
  type SchemaVersion,
} from './schemas/schemas.ts'
export { partitionFor } from './log/partitioner.ts'
export {
  kafkaCaConfig,
  kafkaConnectionConfig,
  type KafkaConnection,
  type KafkaCredentials,
} from './connection/client.ts'
export { layerEventLog, type EventLogOptions } from './log/event-log.ts'
export { layerConsumerGroups, type ConsumerGroupsOptions } from './consumer/member.ts'
export { layerMemory, MemoryKafka, type BrokerState } from './testing/memory.ts'
export { joinWithRetry } from './consumer/join-with-retry.ts'
