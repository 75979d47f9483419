/** What an operator of the hub asks Kafka: whether it is there, how its topics and groups stand, and how topics are mended. */
import { Effect } from 'effect'
import kafkajs from 'kafkajs'
import type { KafkaConnection } from '../connection/client.ts'
import type { KafkaUnavailable } from '../port.ts'
import {
  compare,
  type TopicDifference,
  KafkaRequestRejected,
  type TopicSpec,
  withAdmin,
} from './catalogue.ts'

type Asked<A> = Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected>

export interface ClusterState {
  readonly cluster: string
  readonly brokers: number
}

/** The cluster as the first broker that answers describes it. */
export const describeCluster = (connection: KafkaConnection): Asked<ClusterState> =>
  withAdmin(connection, async (admin) => {
    const { brokers, clusterId } = await admin.describeCluster()
    return { cluster: clusterId, brokers: brokers.length }
  })

/** How the topics of a cluster are beside how they should be. */
export interface TopicComparison {
  readonly missing: ReadonlyArray<string>
  readonly differences: ReadonlyArray<TopicDifference>
}

/** Compares and changes nothing. */
export const compareTopics = (
  connection: KafkaConnection,
  catalogue: ReadonlyArray<TopicSpec>,
): Asked<TopicComparison> =>
  withAdmin(connection, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const there = catalogue.filter(({ topic }) => existing.has(topic))
    return {
      missing: catalogue.filter(({ topic }) => !existing.has(topic)).map(({ topic }) => topic),
      differences: there.length === 0 ? [] : await compare(admin, there),
    }
  })

/** Set on the topic itself, not inherited. Source: Kafka protocol, DescribeConfigs, ConfigSource. */
const OF_THE_TOPIC = 1

/**
 * Gives existing topics the settings of the catalogue. What else was set on a topic stays: kafkajs knows only the request that replaces all
 * settings at once, so the others are read before and sent again. Partitions and replicas are not settings and stay as they are.
 */
export const alterTopics = (connection: KafkaConnection, specs: ReadonlyArray<TopicSpec>): Asked<void> =>
  specs.length === 0
    ? Effect.void
    : withAdmin(connection, async (admin) => {
        const { resources } = await admin.describeConfigs({
          includeSynonyms: false,
          resources: specs.map(({ topic }) => ({ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic })),
        })
        await admin.alterConfigs({
          validateOnly: false,
          resources: specs.map(({ config, topic }) => {
            const set = resources
              .find(({ resourceName }) => resourceName === topic)
              ?.configEntries.filter(({ configSource }) => Number(configSource) === OF_THE_TOPIC)
            const wanted = {
              ...Object.fromEntries(
                (set ?? []).map(({ configName, configValue }) => [configName, configValue]),
              ),
              ...config,
            }
            return {
              type: kafkajs.ConfigResourceTypes.TOPIC,
              name: topic,
              configEntries: Object.entries(wanted).map(([name, value]) => ({ name, value })),
            }
          }),
        })
      })

/** From the oldest record that is kept to where the next one will be. */
export interface OffsetRange {
  readonly partition: number
  readonly low: number
  readonly high: number
}

/** What each of these topics holds now; those that do not exist are left out. */
export const readOffsetRanges = (
  connection: KafkaConnection,
  topics: ReadonlyArray<string>,
): Asked<ReadonlyMap<string, ReadonlyArray<OffsetRange>>> =>
  withAdmin(connection, async (admin) => {
    const existing = new Set(await admin.listTopics())
    const ranges = await Promise.all(
      topics
        .filter((topic) => existing.has(topic))
        .map(async (topic) => {
          const offsets = await admin.fetchTopicOffsets(topic)
          return [
            topic,
            offsets
              .map(({ high, low, partition }) => ({ partition, low: Number(low), high: Number(high) }))
              .toSorted((a, b) => a.partition - b.partition),
          ] as const
        }),
    )
    return new Map(ranges)
  })

export interface GroupState {
  readonly members: number
  /** The broker's word: `Stable`, `PreparingRebalance`, `CompletingRebalance`, `Empty`, `Dead`. */
  readonly state: string
  /** Offsets that the group has committed, by topic and partition; partitions without one are left out. */
  readonly committed: ReadonlyMap<string, ReadonlyMap<number, number>>
}

/** A new client knows its first broker only, and learns of the others by not finding a group's coordinator once. */
const COORDINATOR_RETRY = { retries: 2, initialRetryTime: 50, maxRetryTime: 200 }

/** A consumer group. One that nobody knows is `Dead` and has no members. */
export const describeGroup = (connection: KafkaConnection, group: string): Asked<GroupState> =>
  withAdmin(
    connection,
    async (admin) => {
      const { groups } = await admin.describeGroups([group])
      const state = groups[0]?.state ?? 'Dead'
      const offsets = state === 'Dead' ? [] : await admin.fetchOffsets({ groupId: group })
      return {
        members: groups[0]?.members.length ?? 0,
        state,
        committed: new Map(
          offsets.map(({ partitions, topic }) => [
            topic,
            new Map(
              partitions
                .map(({ offset, partition }) => [partition, Number(offset)] as const)
                .filter(([, offset]) => offset >= 0),
            ),
          ]),
        ),
      }
    },
    COORDINATOR_RETRY,
  )
