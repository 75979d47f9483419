export * from './port.ts'
export * from './codec.ts'
export * from './records.ts'
export {
  displayContent,
  type DeadLetter,
  type DeadLetterQuery,
  deadLettersFrom,
  newestDeadLetters,
  readDeadLetter,
  recordToRetry,
  type DisplayRecord,
} from './dead-letters.ts'
export * from './outgoing.ts'
export * from './registry.ts'
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
} from './topics.ts'
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
} from './inspect.ts'
export { RECORD_NAMES, SCHEMAS, type AvroSchema, type RecordName, type SchemaVersion } from './schemas.ts'
export { partitionFor } from './partitioner.ts'
export {
  kafkaCaConfig,
  kafkaConnectionConfig,
  type KafkaConnection,
  type KafkaCredentials,
} from './client.ts'
export { layerEventLog, type EventLogOptions } from './event-log.ts'
export { layerConsumerGroups, type ConsumerGroupsOptions } from './consumer-groups.ts'
export { layerMemory, MemoryKafka, type BrokerState } from './memory.ts'
export { joinWithRetry } from './join.ts'
