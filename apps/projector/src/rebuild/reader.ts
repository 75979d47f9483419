/**
 * Reads all partitions of lanes and log for a rebuild, in a consumer group of its own that stores
 * no offsets: the positions are in `rebuild.checkpoints`. Records are buffered, up to a limit for
 * each partition.
 */
import { randomUUID } from 'node:crypto'
import { joinWithRetry, KafkaUnavailable, topicNames } from '@hub/kafka'
import { Sql } from '@hub/store'
import { Effect, Latch } from 'effect'
import { GapDetector, type Membership, pauseAll } from '../projection/ownership.ts'
import { type OwnedPartition, RecordBuffer, type TransactionBatch } from '../projection/record-buffer.ts'
import { sourceTopics } from '../projection/source-topics.ts'
import { type Checkpoint, partitionKey } from '../store/projection-store.port.ts'
import { acquireCheckpoints, updateCheckpoints } from '../tables/checkpoints.ts'
import { type RebuildLease, renewLease } from './lease.ts'

export interface RebuildReaderOptions {
  /** `HUB_TOPIC_PREFIX`. */
  readonly prefix: string
  readonly partitions: number
}

/** The offsets that a partition contains. */
interface PartitionRange {
  /** The topic without the prefix of the deployment. */
  readonly topic: string
  readonly partition: number
  readonly low: number
  readonly high: number
}

/** Buffered records over all partitions: some tens of megabytes. */
const BUFFERED_RECORDS = 20_000
const MIN_BUFFERED_PER_PARTITION = 100

/** Reads until the scope closes. */
export const makeRebuildReader = Effect.fnUntraced(function* (
  lease: RebuildLease,
  { partitions, prefix }: RebuildReaderOptions,
) {
  const sql = yield* Sql
  const sources = sourceTopics(topicNames(prefix))
  const perPartition = Math.floor(BUFFERED_RECORDS / (sources.size * partitions))
  const room = Math.max(MIN_BUFFERED_PER_PARTITION, perPartition)
  const buffer = new RecordBuffer()
  /** Open while the buffer of the partition may grow. */
  const roomLatches = new Map<OwnedPartition, Latch.Latch>()
  const gaps = new GapDetector()
  let membership: Membership | null = null
  let isOpen = false

  const close = () => {
    isOpen = false
    buffer.clear()
    for (const latch of roomLatches.values()) latch.openUnsafe()
    roomLatches.clear()
  }

  yield* joinWithRetry(
    {
      group: `${prefix}hub.projector.rebuild.${randomUUID()}`,
      topics: [...sources.keys()],
      concurrency: sources.size * partitions,
    },
    {
      onAssigned: (assignment, control) => {
        close()
        membership = { assignment, control }
        pauseAll(sources, membership)
      },
      onRevoking: Effect.sync(() => {
        membership = null
        close()
      }),
      onBatch: (source, partition, records) =>
        Effect.suspend(() => {
          const owned = buffer.partitionOf(source, partition)
          if (owned === undefined) return Effect.void
          if (buffer.ingest(source, partition, records) === 'gap') {
            if (!gaps.isPermanent(source, partition, owned.nextOffset)) {
              close()
              return Effect.void
            }
            owned.nextOffset = records[0]?.offset ?? 0
            buffer.ingest(source, partition, records)
          }
          if (owned.buffered.length < room) return Effect.void
          const latch = roomLatches.get(owned)
          latch?.closeUnsafe()
          return latch?.await ?? Effect.void
        }),
    },
  )
  yield* Effect.addFinalizer(() => Effect.sync(close))

  const ranges = Effect.gen(function* () {
    const control = membership?.control
    if (control === undefined) {
      return yield* new KafkaUnavailable({ reason: 'refused', detail: 'the group is being joined' })
    }
    const all: Array<PartitionRange> = []
    for (const [source, topic] of sources) {
      for (const range of yield* control.offsetRanges(source)) all.push({ topic, ...range })
    }
    return all
  })

  const open = Effect.gen(function* () {
    const assigned = membership
    if (assigned === null) return 'not_yet' as const
    close()
    pauseAll(sources, assigned)
    const rangeOf = new Map((yield* ranges).map((range) => [partitionKey(range), range]))
    const wanted = [...sources.values()].flatMap((topic) =>
      assigned.assignment.shards.map((partition) => ({ topic, partition })),
    )
    const acquired = yield* sql.transaction(async (q): Promise<ReadonlyArray<Checkpoint> | null> => {
      if (!(await renewLease(q, lease))) return null
      const stored = await acquireCheckpoints(q, wanted, 'rebuild')
      // Records that expired before they were read are skipped.
      const checkpoints = stored.map((one) => {
        const low = rangeOf.get(partitionKey(one))?.low ?? 0
        return one.position < low ? { ...one, position: low } : one
      })
      await updateCheckpoints(q, checkpoints, 'rebuild')
      return checkpoints
    })
    if (acquired === null) return 'lost' as const
    if (membership !== assigned || acquired.length < sources.size * partitions) return 'not_yet' as const
    for (const [source, topic] of sources) {
      for (const checkpoint of acquired) {
        if (checkpoint.topic !== topic) continue
        const { partition, position } = checkpoint
        buffer.addPartition(source, checkpoint, position)
        assigned.control.seek({ topic: source, partition, offset: position })
        assigned.control.resume(source, partition)
      }
    }
    for (const owned of buffer.partitions) roomLatches.set(owned, Latch.makeUnsafe(true))
    isOpen = true
    return 'open' as const
  })

  return {
    /** Acquires the checkpoints of the rebuild and reads from there. `lost`: the lease is lost. */
    open,
    ranges,
    /** False before `open`, and after each rebalance. */
    isOpen: () => isOpen,
    partitions: () => buffer.partitions,
    /** Takes at most `limit` records, and none at or after `end` of its partition. */
    takeBatch: (limit: number, end: (owned: OwnedPartition) => number): TransactionBatch => {
      const batch = buffer.takeBatch(limit, end)
      for (const { owned } of batch) {
        if (owned.buffered.length < room) roomLatches.get(owned)?.openUnsafe()
      }
      return batch
    },
  }
})
export type RebuildReader = Effect.Success<ReturnType<typeof makeRebuildReader>>
