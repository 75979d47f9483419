/** Reads the ends of the partitions of topics. */
import kafkajs from 'kafkajs'
import type { InnerCluster } from '../kafkajs-patches/internals.ts'
import type { OffsetRange } from '../port.ts'

/**
 * The partitions of a topic that `addTargetTopic` has loaded. Metadata without the topic replaces it if a
 * concurrent request was sent before that call, and answered later by another broker. Such a topic must
 * not look like one without records.
 */
export const partitionsOf = (cluster: InnerCluster, topic: string): ReadonlyArray<number> => {
  const partitions = cluster.findTopicPartitionMetadata(topic)
  if (partitions.length === 0)
    throw new kafkajs.KafkaJSTopicMetadataNotLoaded('The metadata lacks a topic', { topic })
  return partitions.map(({ partitionId }) => partitionId)
}

/**
 * The ranges of each topic, in the order of the partitions, with two requests to each broker. Only the
 * leader of a partition can answer.
 */
export const fetchOffsetRangesOf = async (
  cluster: InnerCluster,
  topics: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, ReadonlyArray<OffsetRange>>> => {
  await cluster.addMultipleTargetTopics(topics)
  await cluster.refreshMetadataIfNecessary()
  const offsets = async (fromBeginning: boolean) => {
    const answers = await cluster.fetchTopicsOffset(
      topics.map((topic) => ({
        topic,
        fromBeginning,
        partitions: partitionsOf(cluster, topic).map((partition) => ({ partition })),
      })),
    )
    return new Map(answers.map(({ partitions, topic }) => [topic, partitions]))
  }
  const [low, high] = await Promise.all([offsets(true), offsets(false)])
  const rangesOf = (topic: string): ReadonlyArray<OffsetRange> => {
    const lows = new Map(low.get(topic)?.map(({ offset, partition }) => [partition, Number(offset)]))
    return (high.get(topic) ?? [])
      .map(({ offset, partition }) => ({ partition, low: lows.get(partition) ?? 0, high: Number(offset) }))
      .sort((a, b) => a.partition - b.partition)
  }
  return new Map(topics.map((topic) => [topic, rangesOf(topic)]))
}

/** Asks for the end of a log, in a request for offsets. */
const LATEST = -1

/**
 * The end of the log of each partition, in their order. A client that asks as a reader gets the high
 * watermark: the end of what all replicas in sync have. The log of the leader may be longer. The leader
 * tells its end to a replica, so this request names the broker itself as the replica that asks. Only the
 * leader of a partition answers it.
 */
export const fetchLogEnds = async (cluster: InnerCluster, topic: string): Promise<ReadonlyArray<number>> => {
  await cluster.addTargetTopic(topic)
  const byLeader = Object.entries(cluster.findLeaderForPartitions(topic, partitionsOf(cluster, topic)))
  const answers = await Promise.all(
    byLeader.map(async ([nodeId, led]) => {
      const broker = await cluster.findBroker({ nodeId })
      const { responses } = await broker.listOffsets({
        replicaId: Number(nodeId),
        topics: [{ topic, partitions: led.map((partition) => ({ partition, timestamp: LATEST })) }],
      })
      return responses.flatMap((response) => response.partitions)
    }),
  )
  return answers
    .flat()
    .sort((a, b) => a.partition - b.partition)
    .map(({ offset }) => Number(offset))
}
