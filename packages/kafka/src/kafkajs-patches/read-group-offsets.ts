/**
 * Patch: reads the committed offsets, and the ends of the log, through the consumer's own
 * connections.
 *
 * - kafkajs 2.2.4: only the admin client reads these offsets, one request for each topic.
 * - Not enough: a new admin client first opens connections and loads metadata. A member that has
 *   taken over shards reads these offsets before it can begin, and its shards wait for the answer.
 * - Fails with wrong values: `port.contract.ts`, "commit only the offsets of `commit`, and continue
 *   there after a restart". No test measures the time that the patch saves.
 * - Unnecessary when: the consumer offers `committed` and `endOffsets`, like the Java client.
 */
import { partitionKey } from '../partition-key.ts'
import type { PartitionOffsets } from '../port.ts'
import type { InnerGroup, TopicOffsets } from './internals.ts'

const byPartition = (topics: ReadonlyArray<TopicOffsets>): ReadonlyMap<string, number> =>
  new Map(
    topics.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }) => [partitionKey(topic, partition), Number(offset)] as const),
    ),
  )

/** Sends three requests, independent of the number of topics and partitions. */
export const readGroupOffsets = async (
  { cluster, coordinator, groupId }: InnerGroup,
  topics: ReadonlyArray<string>,
  shards: ReadonlyArray<number>,
): Promise<ReadonlyArray<PartitionOffsets>> => {
  if (coordinator === null) throw new Error('The member has not joined its group yet.')
  const partitions = shards.map((partition) => ({ partition }))
  const requested = topics.map((topic) => ({ topic, partitions }))
  const logOffsets = (fromBeginning: boolean) =>
    cluster.fetchTopicsOffset(requested.map((topic) => ({ ...topic, fromBeginning })))
  const answers = Promise.all([
    coordinator.offsetFetch({ groupId, topics: requested }),
    logOffsets(true),
    logOffsets(false),
  ])
  const [{ responses }, lows, highs] = await answers.catch(async (error: unknown) => {
    // The leader may have moved: the caller's next attempt needs the new metadata.
    await cluster.refreshMetadata().catch(() => {})
    throw error
  })
  const [committed, low, high] = [byPartition(responses), byPartition(lows), byPartition(highs)]
  return topics.flatMap((topic) =>
    shards.map((partition) => {
      const key = partitionKey(topic, partition)
      const [first, next] = [low.get(key), high.get(key)]
      if (first === undefined || next === undefined)
        throw new Error(`The broker's answer lacks partition ${partition} of ${topic}.`)
      return { topic, partition, committed: committed.get(key) ?? -1, low: first, high: next }
    }),
  )
}
