/**
 * The private parts of kafkajs 2.2.4 that the patches in this folder use, as types. The version is
 * pinned, and `kafkajs-patches.unit.test.ts` fails when these parts change.
 */
import { createRequire } from 'node:module'
import type { Assigner, Batch, KafkaMessage } from 'kafkajs'

/** Partitions of a topic, with their offsets as kafkajs writes them. */
interface TopicOffsets {
  readonly topic: string
  readonly partitions: ReadonlyArray<{ readonly partition: number; readonly offset: string }>
}

interface TopicPartitions {
  readonly topic: string
  readonly partitions: ReadonlyArray<number>
}

/** kafkajs' class `ConsumerGroup`. */
export interface InnerGroup {
  readonly groupId: string
  readonly assigners: ReadonlyArray<Assigner>
  readonly memberId: string | null
  readonly generationId: number | null
  readonly cluster: InnerCluster
  /** Seeks that the next fetch applies. */
  readonly seekOffset: Map<string, string>
  joinAndSync(): Promise<void>
  heartbeat(options: { interval: number }): Promise<void>
  fetch(nodeId: number): Promise<ReadonlyArray<InnerBatch>>
  /** kafkajs calls it between the answer to JoinGroup and SyncGroup, and at other times. */
  generatePartitionsPerSubscribedTopic(): unknown
  recoverFromOffsetOutOfRange(error: { topic: string; partition: number }): Promise<void>
  resolveOffset(at: { topic: string; partition: number; offset: string }): void
  seek(at: { topic: string; partition: number; offset: string }): void
  pause(partitions: ReadonlyArray<TopicPartitions>): void
  resume(partitions: ReadonlyArray<TopicPartitions>): void
  commitOffsets(offsets: { topics: ReadonlyArray<TopicOffsets> }): Promise<void>
}

/** kafkajs' class `Cluster`. */
export interface InnerCluster {
  connect(): Promise<void>
  refreshMetadata(): Promise<void>
  /** Loads the metadata of the topic. */
  addTargetTopic(topic: string): Promise<void>
  findTopicPartitionMetadata(topic: string): ReadonlyArray<{ readonly partitionId: number }>
  /** The partitions by the node id of their leader. */
  findLeaderForPartitions(
    topic: string,
    partitions: ReadonlyArray<number>,
  ): Readonly<Record<string, ReadonlyArray<number>>>
  findBroker(request: { nodeId: string }): Promise<InnerLeader>
  findGroupCoordinator(request: { groupId: string }): Promise<InnerCoordinator>
  fetchTopicsOffset(
    topics: ReadonlyArray<{
      readonly topic: string
      readonly partitions: ReadonlyArray<{ readonly partition: number }>
      readonly fromBeginning?: boolean
      /** The first offset whose timestamp is not lower, ms; -1 if there is none. */
      readonly fromTimestamp?: number
    }>,
  ): Promise<ReadonlyArray<TopicOffsets>>
}

/** kafkajs' class `Broker`, for the leader of a partition. */
export interface InnerLeader {
  /** Rejects when a partition has an error. */
  fetch(request: {
    readonly isolationLevel: number
    readonly maxWaitTime: number
    readonly maxBytes: number
    readonly topics: ReadonlyArray<{
      readonly topic: string
      readonly partitions: ReadonlyArray<{
        readonly partition: number
        readonly fetchOffset: number
        readonly maxBytes: number
      }>
    }>
  }): Promise<{
    readonly responses: ReadonlyArray<{
      readonly partitions: ReadonlyArray<{ readonly messages: ReadonlyArray<KafkaMessage> }>
    }>
  }>
}

/** kafkajs' class `Broker`, for the coordinator of a group. */
export interface InnerCoordinator {
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
  describeGroups(request: { groupIds: ReadonlyArray<string> }): Promise<{
    readonly groups: ReadonlyArray<{ readonly state: string; readonly members: ReadonlyArray<unknown> }>
  }>
}

/** A fetched batch, with two members that the types of kafkajs omit. */
export interface InnerBatch extends Batch {
  /** The requested offset. The log has no record between it and the first message. */
  readonly fetchedOffset: string
  isEmptyDueToFiltering(): boolean
}

export interface RequestQueue {
  readonly pending: ReadonlyArray<unknown>
  scheduleCheckPendingRequests(): void
}

const require = createRequire(import.meta.url)

export const InnerGroupClass = require('kafkajs/src/consumer/consumerGroup') as {
  readonly prototype: InnerGroup
}

export const RequestQueueClass = require('kafkajs/src/network/requestQueue') as {
  readonly prototype: RequestQueue
}
