/** Requests about the cluster, its topics and its consumer groups. */
import { Effect } from 'effect'
import kafkajs, { type Admin } from 'kafkajs'
import type { KafkaConnection } from '../connection/client.ts'
import type { KafkaUnavailable, OffsetRange } from '../port.ts'
import { type KafkaRequestRejected, withAdmin, withCluster } from './admin.ts'
import type { TopicSpec } from './catalogue.ts'
import { type TopicDifference, topicDifferences } from './differences.ts'
import { fetchLogEnds, fetchOffsetRangesOf } from './offset-ranges.ts'

type Request<A> = Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected>

interface ClusterState {
  readonly cluster: string
  readonly brokers: number
}

/** The cluster, as the first broker that answers describes it. */
export const describeCluster = (connection: KafkaConnection): Request<ClusterState> =>
  withAdmin(connection, async (admin) => {
    const { brokers, clusterId } = await admin.describeCluster()
    return { cluster: clusterId, brokers: brokers.length }
  })

interface TopicComparison {
  readonly missing: ReadonlyArray<string>
  readonly differences: ReadonlyArray<TopicDifference>
}

/** Compares the topics of the cluster with the catalogue. It changes nothing. */
export const compareTopics = (
  connection: KafkaConnection,
  catalogue: ReadonlyArray<TopicSpec>,
): Request<TopicComparison> =>
  withAdmin(connection, async (admin) => {
    const existing = new Set(await admin.listTopics())
    return {
      missing: catalogue.filter(({ topic }) => !existing.has(topic)).map(({ topic }) => topic),
      differences: await topicDifferences(
        admin,
        catalogue.filter(({ topic }) => existing.has(topic)),
      ),
    }
  })

/** ConfigSource of DescribeConfigs (Kafka protocol): set on the topic, not inherited. */
const TOPIC_CONFIG = 1

/** A broker applies new settings some milliseconds after the controller has confirmed them. */
const APPLIED_WITHIN_MS = 10_000
const APPLIED_CHECK_MS = 50

/** Waits until the broker shows the settings of the catalogue, so that the next comparison finds none. */
const awaitSettings = async (admin: Admin, specs: ReadonlyArray<TopicSpec>): Promise<void> => {
  const limit = performance.now() + APPLIED_WITHIN_MS
  const isDifferent = async () => {
    const differences = await topicDifferences(admin, specs)
    return differences.some(({ setting, topic }) =>
      specs.some((spec) => spec.topic === topic && setting in spec.config),
    )
  }
  while (performance.now() < limit && (await isDifferent()))
    await new Promise((resolve) => setTimeout(resolve, APPLIED_CHECK_MS))
}

/**
 * Sets the settings of the catalogue on existing topics. Other settings of a topic are preserved:
 * kafkajs supports only the request that replaces all settings, so it reads them first and sends
 * them again. Partitions and replicas are not settings and do not change.
 */
export const alterTopics = (connection: KafkaConnection, specs: ReadonlyArray<TopicSpec>): Request<void> =>
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
            const current = resources
              .find(({ resourceName }) => resourceName === topic)
              ?.configEntries.filter(({ configSource }) => Number(configSource) === TOPIC_CONFIG)
            const settings = {
              ...Object.fromEntries(
                (current ?? []).map(({ configName, configValue }) => [configName, configValue]),
              ),
              ...config,
            }
            return {
              type: kafkajs.ConfigResourceTypes.TOPIC,
              name: topic,
              configEntries: Object.entries(settings).map(([name, value]) => ({ name, value })),
            }
          }),
        })
        await awaitSettings(admin, specs)
      })

/**
 * The end of the log of each partition of a topic, in the order of the partitions. It is behind every
 * record that the leader has, also behind one that readers cannot see yet.
 */
export const topicLogEnds = (connection: KafkaConnection, topic: string): Request<ReadonlyArray<number>> =>
  withCluster(connection, (cluster) => fetchLogEnds(cluster, topic))

/** The offset ranges of each topic. Topics that do not exist are omitted. */
export const readOffsetRanges = (
  connection: KafkaConnection,
  topics: ReadonlyArray<string>,
): Request<ReadonlyMap<string, ReadonlyArray<OffsetRange>>> =>
  withCluster(connection, async (cluster) => {
    // While no topic is added, it loads the metadata of all topics.
    await cluster.refreshMetadata()
    return fetchOffsetRangesOf(
      cluster,
      topics.filter((topic) => cluster.findTopicPartitionMetadata(topic).length > 0),
    )
  })

interface GroupState {
  readonly members: number
  /** By Kafka's names: `Stable`, `PreparingRebalance`, `CompletingRebalance`, `Empty`, `Dead`. */
  readonly state: string
  /** The committed offsets, by topic and partition. Partitions without one are omitted. */
  readonly committed: ReadonlyMap<string, ReadonlyMap<number, number>>
}

/** A new client knows only its first broker, and finds a group's coordinator only with a retry. */
const COORDINATOR_RETRY = { retries: 2, initialRetryTime: 50, maxRetryTime: 200 }

/** The state of a consumer group. An unknown group is `Dead` and has no members. */
export const describeGroup = (connection: KafkaConnection, group: string): Request<GroupState> =>
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
