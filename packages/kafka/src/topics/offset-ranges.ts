/** Reads the ends of the partitions of topics. */
import type { Admin } from 'kafkajs'
import type { InnerCluster } from '../kafkajs-patches/internals.ts'
import type { OffsetRange } from '../port.ts'

/** In the order of the partitions. Only the leader of each partition can answer. */
export const fetchOffsetRanges = async (admin: Admin, topic: string): Promise<ReadonlyArray<OffsetRange>> =>
  (await admin.fetchTopicOffsets(topic))
    .map(({ partition, low, high }) => ({ partition, low: Number(low), high: Number(high) }))
    .sort((a, b) => a.partition - b.partition)

/** The same for several topics, with two requests to each broker. */
export const fetchOffsetRangesOf = async (
  cluster: InnerCluster,
  topics: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, ReadonlyArray<OffsetRange>>> => {
  for (const topic of topics) await cluster.addTargetTopic(topic)
  await cluster.refreshMetadataIfNecessary()
  const offsets = async (fromBeginning: boolean) => {
    const answers = await cluster.fetchTopicsOffset(
      topics.map((topic) => ({
        topic,
        fromBeginning,
        partitions: cluster
          .findTopicPartitionMetadata(topic)
          .map(({ partitionId }) => ({ partition: partitionId })),
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
  const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId)
  const byLeader = Object.entries(cluster.findLeaderForPartitions(topic, partitions))
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
