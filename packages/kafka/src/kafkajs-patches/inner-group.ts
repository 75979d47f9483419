/**
 * The part of kafkajs 2.2.4 that it keeps to itself and a shard needs: a word before every (re)join, when a
 * heartbeat was *sent*, which join a batch belongs to, and the leaving of a group for somebody else. The version is pinned, and a
 * test fails when this shape is no longer what it was.
 */
import { createRequire } from 'node:module'
import type { Assigner, Batch, Kafka } from 'kafkajs'

/** kafkajs' `ConsumerGroup`, as far as it is used here. */
export interface InnerGroup {
  readonly groupId: string
  readonly assigners: ReadonlyArray<Assigner>
  readonly memberId: string | null
  readonly generationId: number | null
  readonly cluster: InnerCluster & {
    fetchTopicsOffset(
      topics: ReadonlyArray<{
        topic: string
        fromBeginning: boolean
        partitions: ReadonlyArray<{ partition: number }>
      }>,
    ): Promise<
      ReadonlyArray<{ topic: string; partitions: ReadonlyArray<{ partition: number; offset: string }> }>
    >
  }
  /** Known once the group has been joined. */
  readonly coordinator: InnerCoordinator | null
  /** Seeks that the next fetch will take. */
  readonly seekOffset: Map<string, string>
  joinAndSync(): Promise<void>
  heartbeat(options: { interval: number }): Promise<void>
  fetch(nodeId: number): Promise<ReadonlyArray<InnerBatch>>
  /** Called between the answer to JoinGroup and the sending of SyncGroup, and at other times. */
  generatePartitionsPerSubscribedTopic(): unknown
  recoverFromOffsetOutOfRange(error: { topic: string; partition: number }): Promise<void>
  resolveOffset(at: { topic: string; partition: number; offset: string }): void
  seek(at: { topic: string; partition: number; offset: string }): void
  pause(places: ReadonlyArray<{ topic: string; partitions: ReadonlyArray<number> }>): void
  resume(places: ReadonlyArray<{ topic: string; partitions: ReadonlyArray<number> }>): void
  commitOffsets(offsets: {
    topics: ReadonlyArray<{
      topic: string
      partitions: ReadonlyArray<{ partition: number; offset: string }>
    }>
  }): Promise<void>
}

export interface InnerCluster {
  connect(): Promise<void>
  refreshMetadata(): Promise<void>
  findGroupCoordinator(request: { groupId: string }): Promise<InnerCoordinator>
}

export interface InnerCoordinator {
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
  describeGroups(request: { groupIds: ReadonlyArray<string> }): Promise<{
    readonly groups: ReadonlyArray<{ readonly state: string; readonly members: ReadonlyArray<unknown> }>
  }>
  offsetFetch(request: {
    groupId: string
    topics: ReadonlyArray<{ topic: string; partitions: ReadonlyArray<{ partition: number }> }>
  }): Promise<{
    readonly responses: ReadonlyArray<{
      topic: string
      partitions: ReadonlyArray<{ partition: number; offset: string }>
    }>
  }>
}

/** A batch with what kafkajs' types leave out. */
export interface InnerBatch extends Batch {
  /** The offset that was asked for: whatever lies between it and the first message is not in the log. */
  readonly fetchedOffset: string
  isEmptyDueToFiltering(): boolean
}

/** What is told of a group. */
export interface GroupHooks {
  /** Before every join and rejoin; the group joins when the promise ends. */
  readonly beforeJoin: (group: InnerGroup) => Promise<void>
}

const require = createRequire(import.meta.url)

/** The class itself, for the test of its shape. */
export const InnerGroupClass = require('kafkajs/src/consumer/consumerGroup') as {
  readonly prototype: InnerGroup
}

/** Connections to the brokers, without anything that uses them. */
export const innerCluster = (kafka: Kafka): InnerCluster => {
  const name = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  )
  const create = (kafka as unknown as Record<symbol, (options: object) => InnerCluster>)[name!]!
  return create({ allowAutoTopicCreation: false })
}

const hooksOf = new WeakMap<Assigner, GroupHooks>()

/** Attaches hooks to the group that gets this assigner. */
export const attachHooks = (assigner: Assigner, hooks: GroupHooks): void => {
  hooksOf.set(assigner, hooks)
}

const joining = new WeakMap<InnerGroup, Promise<void>>()
const join = InnerGroupClass.prototype.joinAndSync

const joinWithHooks = async (group: InnerGroup, hooks: GroupHooks): Promise<void> => {
  await hooks.beforeJoin(group)
  await join.call(group)
}

InnerGroupClass.prototype.joinAndSync = function (this: InnerGroup): Promise<void> {
  const hooks = this.assigners.map((assigner) => hooksOf.get(assigner)).find((found) => found !== undefined)
  if (hooks === undefined) return join.call(this)
  // The fetchers of several brokers may each find that they must rejoin; one join serves them all.
  const under = joining.get(this)
  if (under !== undefined) return under
  const joined = joinWithHooks(this, hooks).finally(() => joining.delete(this))
  joining.set(this, joined)
  return joined
}
