/** One kafkajs consumer. A member replaces its instance when it is stuck or has crashed. */
import type { Consumer, ConsumerCrashEvent, ConsumerGroupJoinEvent } from 'kafkajs'
import { makeKafka, type Fork, type KafkaClient, type KafkaConnection } from '../connection/client.ts'
import { setBeforeJoin } from '../kafkajs-patches/before-join-hook.ts'
import type { InnerGroup } from '../kafkajs-patches/internals.ts'
import type { SendTimes } from '../kafkajs-patches/send-times.ts'
import type { GroupOptions } from '../port.ts'
import { type CurrentAssignment, shardAssignor } from './assignor.ts'
import type { FetchedBatch } from './fetched-batch.ts'
import type { Fetcher } from './fetcher.ts'

/** The slowest ordinary answer is the one to SyncGroup, which waits for the leader. */
export const REQUEST_TIMEOUT_MS = 5000
/** How long the group waits for its members to rejoin: they finish their work in progress first. */
export const REBALANCE_TIMEOUT_MS = 10_000

export interface ConsumerInstance {
  readonly client: KafkaClient
  readonly consumer: Consumer
  /** Known from the first join on. */
  group: InnerGroup | undefined
  /** Known from the first join on. */
  sendTimes: SendTimes | undefined
  /** Known from the first join on. */
  fetcher: Fetcher | undefined
  /** The member has replaced or closed it. */
  isStopped: boolean
  /** The member requests a rebalance, although the broker does not. */
  isRejoinRequested: boolean
}

export interface InstanceSettings {
  readonly connection: KafkaConnection
  readonly options: GroupOptions
  readonly sessionTimeoutMs: number
  readonly heartbeatMs: number
  /** Index of the broker to connect to first. */
  readonly firstBrokerIndex: number
  readonly fork: Fork
  /** The shards that the member reports when it joins. */
  readonly reportedShards: () => Pick<CurrentAssignment, 'generation' | 'shards'>
}

interface InstanceEvents {
  readonly beforeJoin: (instance: ConsumerInstance, group: InnerGroup) => Promise<void>
  readonly onJoined: (instance: ConsumerInstance, event: ConsumerGroupJoinEvent['payload']) => void
  readonly onHeartbeat: (instance: ConsumerInstance, generation: number) => void
  readonly onCrash: (instance: ConsumerInstance, error: Error) => void
}

export const createConsumerInstance = (
  {
    connection,
    firstBrokerIndex,
    fork,
    heartbeatMs,
    options,
    reportedShards,
    sessionTimeoutMs,
  }: InstanceSettings,
  events: InstanceEvents,
): ConsumerInstance => {
  const client = makeKafka(
    connection,
    {
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1000 },
      firstBrokerIndex,
    },
    fork,
  )
  const consumer = client.kafka.consumer({
    groupId: options.group,
    sessionTimeout: sessionTimeoutMs,
    heartbeatInterval: heartbeatMs,
    rebalanceTimeout: REBALANCE_TIMEOUT_MS,
    allowAutoTopicCreation: false,
    partitionAssigners: [
      shardAssignor(reportedShards, options.standbyTopic, (assignor) =>
        setBeforeJoin(assignor, (group) => events.beforeJoin(instance, group)),
      ),
    ],
    retry: {
      retries: 5,
      initialRetryTime: 100,
      maxRetryTime: 1000,
      // The member does that: kafkajs restarts late or never (its issues 659, 1593).
      restartOnFailure: () => Promise.resolve(false),
    },
  })
  const instance: ConsumerInstance = {
    client,
    consumer,
    group: undefined,
    sendTimes: undefined,
    fetcher: undefined,
    isStopped: false,
    isRejoinRequested: false,
  }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => events.onJoined(instance, payload))
  consumer.on(consumer.events.HEARTBEAT, ({ payload }) =>
    events.onHeartbeat(instance, payload.groupGenerationId),
  )
  consumer.on(consumer.events.CRASH, ({ payload }: ConsumerCrashEvent) =>
    events.onCrash(instance, payload.error),
  )
  return instance
}

/** Connects and consumes. Rejects when the start fails; later failures are crash events. */
export const runConsumerInstance = async (
  { consumer }: ConsumerInstance,
  { concurrency = 1, topics }: GroupOptions,
  deliver: (batch: FetchedBatch) => Promise<void>,
): Promise<void> => {
  await consumer.connect()
  await consumer.subscribe({ topics: [...topics], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    partitionsConsumedConcurrently: concurrency,
    // The batches are those of `fetcher.ts`.
    eachBatch: ({ batch }) => deliver(batch as unknown as FetchedBatch),
  })
}
