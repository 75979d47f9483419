export * from './port.ts'
export * from './codec.ts'
export * from './records.ts'
export {
  contentOf,
  type DeadLetter,
  type DeadLetterQuery,
  deadLettersFrom,
  newestDeadLetters,
  readDeadLetter,
  recordToRetry,
  type ShownRecord,
} from './dead-letters.ts'
export * from './outgoing.ts'
export * from './registry.ts'
export {
  type CatalogueOptions,
  catalogueConfig,
  createTopics,
  deadLetterOf,
  topicCatalogue,
  type TopicDifference,
  topicEnds,
  type TopicNames,
  topicNames,
  TopicRefused,
  type TopicReport,
  type TopicSpec,
} from './topics.ts'
export {
  alterTopics,
  type ClusterState,
  compareTopics,
  type GroupState,
  readCluster,
  readGroup,
  readRanges,
  type TopicComparison,
  type TopicRange,
} from './inspect.ts'
export { RECORD_NAMES, SCHEMAS, type AvroSchema, type RecordName, type SchemaVersion } from './schemas.ts'
export { partitionFor } from './partitioner.ts'
export {
  kafkaAuthorities,
  kafkaConnectionConfig,
  type KafkaConnection,
  type KafkaCredentials,
} from './client.ts'
export { layerEventLog, type EventLogOptions } from './event-log.ts'
export { layerConsumerGroups, type ConsumerGroupsOptions } from './consumer-groups.ts'
export { layerMemory, MemoryBus, type BusState } from './memory.ts'
export { joinPatiently } from './join.ts'
