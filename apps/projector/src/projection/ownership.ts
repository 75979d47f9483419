/**
 * Ownership of partitions: a member raises the epochs of the checkpoints of its assigned shards.
 * Then a transaction of the previous owner changes nothing.
 */
import { type Assignment, type GroupControl, KafkaUnavailable } from '@hub/kafka'
import type { StorageError } from '@hub/store'
import { Effect } from 'effect'
import type { Checkpoint, ProjectionStoreShape } from '../store/projection-store.port.ts'

/** What the group has assigned to this member, and the means to control its consumption. */
export interface Membership {
  readonly assignment: Assignment
  readonly control: GroupControl
}

/** A checkpoint that this member owns. */
interface AcquiredPartition {
  /** The topic in Kafka. */
  readonly source: string
  readonly checkpoint: Checkpoint
  /** The first offset to read: the checkpoint, unless the topic does not contain it. */
  readonly from: number
}

/** `sources`: topics by their name in Kafka, see `sourceTopics`. */
export const acquirePartitions = Effect.fnUntraced(function* (
  store: ProjectionStoreShape,
  sources: ReadonlyMap<string, string>,
  { assignment, control }: Membership,
): Effect.fn.Return<ReadonlyArray<AcquiredPartition>, StorageError | KafkaUnavailable> {
  const partitions = [...sources.values()].flatMap((topic) =>
    assignment.shards.map((partition) => ({ topic, partition })),
  )
  const checkpoints = yield* store.acquire(partitions)
  const acquired: Array<AcquiredPartition> = []
  const rangesOf = yield* Effect.forEach(sources.keys(), control.offsetRanges, { concurrency: 'unbounded' })
  for (const [index, [source, topic]] of [...sources].entries()) {
    const ranges = new Map(rangesOf[index]!.map((range) => [range.partition, range]))
    for (const checkpoint of checkpoints) {
      if (checkpoint.topic !== topic) continue
      const { partition, position } = checkpoint
      const range = ranges.get(partition)
      if (range === undefined) {
        return yield* new KafkaUnavailable({ reason: 'rejected', detail: 'a partition is missing' })
      }
      const { high, low } = range
      // Too low: the records have expired. Too high: the topic was replaced.
      const from = position < low || position > high ? low : position
      if (from !== position && position > 0) {
        yield* Effect.logError(
          'projector: the checkpoint is outside the offsets of the topic, reading from the lowest offset',
        ).pipe(Effect.annotateLogs({ topic: source, partition, position, low, high }))
      }
      acquired.push({ source, checkpoint, from })
    }
  }
  return acquired
})

/** Pauses the consumption of all partitions of a membership. */
export const pauseAll = (sources: ReadonlyMap<string, string>, { assignment, control }: Membership): void => {
  for (const source of sources.keys()) {
    for (const shard of assignment.shards) control.pause(source, shard)
  }
}

/**
 * Detects records that are missing in a partition. The first gap at an offset may be a fault of the
 * fetch, so the partition is read again. At the second gap at the same offset the topic lacks the
 * records.
 */
export class GapDetector {
  readonly #gaps = new Map<string, number>()

  /** Whether the records are missing for good. `nextOffset`: where the gap begins. */
  isPermanent(source: string, partition: number, nextOffset: number): boolean {
    const key = `${source}/${partition}`
    if (this.#gaps.get(key) === nextOffset) return true
    this.#gaps.set(key, nextOffset)
    return false
  }
}
