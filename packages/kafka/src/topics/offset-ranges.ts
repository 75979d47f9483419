/** Reads the ends of the partitions of a topic. */
import type { Admin } from 'kafkajs'
import type { OffsetRange } from '../port.ts'

/** In the order of the partitions. Only the leader of each partition can answer. */
export const fetchOffsetRanges = async (admin: Admin, topic: string): Promise<ReadonlyArray<OffsetRange>> =>
  (await admin.fetchTopicOffsets(topic))
    .map(({ partition, low, high }) => ({ partition, low: Number(low), high: Number(high) }))
    .sort((a, b) => a.partition - b.partition)
