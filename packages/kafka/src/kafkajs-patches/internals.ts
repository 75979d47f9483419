/**
 * The private parts of kafkajs 2.2.4 that the patches in this folder use, as types. The version is
 * pinned, and `kafkajs-patches.unit.test.ts` fails when these parts change.
 */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import kafkajs, { type Assigner } from 'kafkajs'

/** Partitions of a topic, with their offsets as kafkajs writes them. */
interface TopicOffsets {
  readonly topic: string
  readonly partitions: ReadonlyArray<{ readonly partition: number; readonly offset: string }>
}

/** kafkajs' class `ConsumerGroup`. */
export interface InnerGroup {
  readonly groupId: string
  readonly assigners: ReadonlyArray<Assigner>
  readonly memberId: string | null
  readonly generationId: number | null
  readonly cluster: InnerCluster
  /** A new one for each assignment. */
  readonly offsetManager: InnerOffsets
  joinAndSync(): Promise<void>
  heartbeat(options: { interval: number }): Promise<void>
  /** Returns what kafkajs passes to `eachBatch`, one after the other. */
  fetch(nodeId: string): Promise<ReadonlyArray<unknown>>
  /** Reacts to an error of a fetch: loads the metadata, joins again, or throws it. */
  recoverFromFetch(error: unknown): Promise<void>
  /** Throws if a topic has partitions that the assignment does not know. */
  checkForStaleAssignment(): void
  /** kafkajs calls it between the answer to JoinGroup and SyncGroup, and at other times. */
  generatePartitionsPerSubscribedTopic(): unknown
  recoverFromOffsetOutOfRange(error: { topic: string; partition: number }): Promise<void>
  commitOffsets(offsets: { topics: ReadonlyArray<TopicOffsets> }): Promise<void>
}

/** kafkajs' class `OffsetManager`. */
interface InnerOffsets {
  /** Asks for the committed offsets; without one, for the first offset of the log. */
  resolveOffsets(): Promise<void>
  nextOffset(topic: string, partition: number): { toString(): string }
}

/** kafkajs' class `Cluster`. */
export interface InnerCluster {
  /** Its metadata is another object after each refresh. */
  readonly brokerPool: {
    readonly metadata: unknown
    findConnectedBroker(): Promise<{ metadata(topics: ReadonlyArray<string>): Promise<object> }>
  }
  connect(): Promise<void>
  /** The metadata of the topics, or of all without any. `null`: all known brokers failed. */
  metadata(request?: { readonly topics?: ReadonlyArray<string> }): Promise<object | null>
  refreshMetadata(): Promise<void>
  refreshMetadataIfNecessary(): Promise<void>
  /** Loads the metadata of the topic. */
  addTargetTopic(topic: string): Promise<void>
  addMultipleTargetTopics(topics: ReadonlyArray<string>): Promise<void>
  findTopicPartitionMetadata(
    topic: string,
  ): ReadonlyArray<{ readonly partitionId: number; readonly leader: number }>
  /** The partitions by the node id of their leader. */
  findLeaderForPartitions(
    topic: string,
    partitions: ReadonlyArray<number>,
  ): Readonly<Record<string, ReadonlyArray<number>>>
  findBroker(request: { nodeId: string }): Promise<InnerBroker>
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

/** kafkajs' class `Broker`. */
export interface InnerBroker {
  readonly connectionPool: InnerConnection & {
    /** Opens the connection with this number, if necessary. */
    getConnection(number: number): Promise<InnerConnection>
  }
  listOffsets(request: {
    /** The node id of the broker that asks. Without it, a reader asks. */
    readonly replicaId?: number
    readonly topics: ReadonlyArray<{
      readonly topic: string
      readonly partitions: ReadonlyArray<{ readonly partition: number; readonly timestamp: number }>
    }>
  }): Promise<{ readonly responses: ReadonlyArray<TopicOffsets> }>
  disconnect(): Promise<void>
}

/** kafkajs' class `Connection`. */
export interface InnerConnection {
  send<A, B extends { readonly clientSideThrottleTime: number }>(exchange: {
    readonly request: {
      readonly apiKey: number
      readonly apiVersion: number
      readonly apiName: string
      readonly encode: () => Promise<{ readonly buf: Buffer; readonly buffer: Buffer }>
    }
    readonly response: {
      readonly decode: (payload: Buffer) => Promise<B>
      readonly parse: (decoded: B) => Promise<A>
    }
  }): Promise<A>
}

/** kafkajs' class `Broker`, for the coordinator of a group. */
export interface InnerCoordinator {
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
  describeGroups(request: { groupIds: ReadonlyArray<string> }): Promise<{
    readonly groups: ReadonlyArray<{ readonly state: string; readonly members: ReadonlyArray<unknown> }>
  }>
}

/** kafkajs' class `RequestQueue`: the requests of a connection. */
export interface RequestQueue {
  readonly pending: ReadonlyArray<unknown>
  /** The requests without an answer, by correlation id. */
  readonly inflight: ReadonlyMap<
    number,
    { readonly sentAt: number; readonly requestTimeout: number; timeoutRequest(): void }
  >
  isConnected(): boolean
  scheduleCheckPendingRequests(): void
  /** kafkajs calls it when it has connected, if `enforceRequestTimeout` is set, as it is in the hub. */
  scheduleRequestTimeoutCheck(): void
  /** Clears the timers. */
  destroy(): void
}

const require = createRequire(import.meta.url)

// The patches change the copy of kafkajs that `require` finds, and clients are made with the copy that `import`
// finds. The copies differ if `node_modules` was copied into an existing `node_modules`: the modules of a bundle
// then find the inner one. A consumer without the patches never joins its group.
if ((require('kafkajs') as typeof kafkajs).Kafka !== kafkajs.Kafka) {
  console.error(
    `kafkajs is installed twice, as ${require.resolve('kafkajs')} and ${fileURLToPath(import.meta.resolve('kafkajs'))}, so the hub's patches of it are not in force. Remove the folder node_modules and run npm ci.`,
  )
  process.exit(1)
}

export const InnerGroupClass = require('kafkajs/src/consumer/consumerGroup') as {
  readonly prototype: InnerGroup
}

export const ClusterClass = require('kafkajs/src/cluster') as {
  readonly prototype: InnerCluster
}

export const RequestQueueClass = require('kafkajs/src/network/requestQueue') as {
  readonly prototype: RequestQueue
}
