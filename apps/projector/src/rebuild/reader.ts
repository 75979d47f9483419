/**
 * Reads all partitions of lanes and log for a rebuild, in a consumer group of its own that nobody else is in and that stores no offsets: where to go
 * on stands in the tables of the rebuild. What is read waits here until it may be folded, so much of each partition.
 */
import { randomUUID } from 'node:crypto'
import {
  type Assignment,
  KafkaUnavailable,
  type ConsumerGroups,
  type GroupControl,
  joinWithRetry,
  type TopicNames,
  topicNames,
} from '@hub/kafka'
import { ReadCheckpoints, Sql, type StorageError } from '@hub/store'
import { Effect, Latch, type Scope } from 'effect'
import { type Claim, Intake, type Poll } from '../projection/record-buffer.ts'
import { type Checkpoint, claimCheckpoints, moveCheckpoints } from '../tables/all.ts'
import { type Held, hold } from '../tables/rebuilds.ts'

export interface ReaderOptions {
  /** `HUB_TOPIC_PREFIX`. */
  readonly prefix: string
  readonly partitions: number
}

/** Where a partition begins and ends. */
export interface Extent {
  /** Topic without the deployment's prefix. */
  readonly topic: string
  readonly partition: number
  readonly low: number
  readonly high: number
}

/** Names a partition. */
export const keyOf = ({ partition, topic }: { readonly topic: string; readonly partition: number }) =>
  `${topic}/${partition}`

export interface Reader {
  /** Claims the positions that the rebuild has come to, and reads on from there. `lost`: it is not ours any more. */
  readonly open: Effect.Effect<'open' | 'lost' | 'not_yet', StorageError | KafkaUnavailable>
  /** False before `open`, and again when the consumer was built anew. */
  readonly isOpen: () => boolean
  readonly claims: () => ReadonlyArray<Claim>
  /** At most so many records, none at or behind `end` of its partition. */
  readonly take: (limit: number, end: (claim: Claim) => number) => Poll
  readonly extents: Effect.Effect<ReadonlyArray<Extent>, KafkaUnavailable>
}

/**
 * Records that may wait here, shared among the partitions: some tens of megabytes. What is fetched with the last of them comes on top, a
 * megabyte a partition at most.
 */
const WAITING = 20_000
const LEAST_OF_A_PARTITION = 100

const sourcesOf = (topics: TopicNames): ReadonlyMap<string, string> => {
  const bare = topicNames()
  return new Map([
    [topics.acceptedOtp, bare.acceptedOtp],
    [topics.acceptedService, bare.acceptedService],
    [topics.messages, bare.messages],
  ])
}

/** Reads until the scope closes. */
export const makeReader = Effect.fnUntraced(function* (
  held: Held,
  { partitions, prefix }: ReaderOptions,
): Effect.fn.Return<Reader, never, Sql | ConsumerGroups | Scope.Scope> {
  const sql = yield* Sql
  const sources = sourcesOf(topicNames(prefix))
  const room = Math.max(LEAST_OF_A_PARTITION, Math.floor(WAITING / (sources.size * partitions)))
  const intake = new Intake()
  const rooms = new Map<Claim, Latch.Latch>()
  let current: { readonly assignment: Assignment; readonly control: GroupControl } | null = null
  let opened = false
  /** Where a partition's records did not continue: the second time there is nothing in between. */
  const gaps = new Map<string, number>()

  const close = () => {
    opened = false
    intake.clear()
    for (const latch of rooms.values()) latch.openUnsafe()
    rooms.clear()
  }
  const pauseAll = ({ assignment, control }: NonNullable<typeof current>) => {
    for (const source of sources.keys()) {
      for (const shard of assignment.shards) control.pause(source, shard)
    }
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
        current = { assignment, control }
        pauseAll(current)
      },
      onRevoking: Effect.sync(() => {
        current = null
        close()
      }),
      onBatch: (source, partition, records) =>
        Effect.suspend(() => {
          const claim = intake.claims.find((one) => one.source === source && one.partition === partition)
          if (claim === undefined) return Effect.void
          if (intake.add(source, partition, records) === 'gap') {
            const first = records[0]?.offset ?? 0
            const key = `${source}/${partition}`
            // The first time everything is read again from its position.
            if (gaps.get(key) !== claim.next) {
              gaps.set(key, claim.next)
              close()
              return Effect.void
            }
            claim.next = first
            intake.add(source, partition, records)
          }
          if (claim.waiting.length < room) return Effect.void
          const latch = rooms.get(claim)
          latch?.closeUnsafe()
          return latch?.await ?? Effect.void
        }),
    },
  )
  yield* Effect.addFinalizer(() => Effect.sync(close))

  const extents = Effect.gen(function* () {
    const control = current?.control
    if (control === undefined) {
      return yield* new KafkaUnavailable({ reason: 'refused', detail: 'the group is being joined' })
    }
    const all: Array<Extent> = []
    for (const [source, topic] of sources) {
      for (const bound of yield* control.offsetRanges(source)) all.push({ topic, ...bound })
    }
    return all
  })

  const open = Effect.gen(function* () {
    const assigned = current
    if (assigned === null) return 'not_yet' as const
    close()
    pauseAll(assigned)
    const bounds = new Map((yield* extents).map((one) => [`${one.topic}/${one.partition}`, one]))
    const wanted = [...sources.values()].flatMap((topic) =>
      assigned.assignment.shards.map((partition) => ({ topic, partition })),
    )
    const claimed = yield* sql.transaction(async (q): Promise<ReadonlyArray<Checkpoint> | null> => {
      if (!(await hold(q, held))) return null
      const stored = await claimCheckpoints(q, ReadCheckpoints.PROJECTION, wanted, 'rebuild')
      // What was removed from a topic before its turn came is not waited for.
      const checkpoints = stored.map((one) => {
        const low = bounds.get(`${one.topic}/${one.partition}`)?.low ?? 0
        return one.position < low ? { ...one, position: low } : one
      })
      await moveCheckpoints(q, ReadCheckpoints.PROJECTION, checkpoints, 'rebuild')
      return checkpoints
    })
    if (claimed === null) return 'lost' as const
    if (current !== assigned || claimed.length < sources.size * partitions) return 'not_yet' as const
    for (const [source, topic] of sources) {
      for (const checkpoint of claimed) {
        if (checkpoint.topic !== topic) continue
        intake.open(source, checkpoint, checkpoint.position)
        assigned.control.seek({ topic: source, partition: checkpoint.partition, offset: checkpoint.position })
        assigned.control.resume(source, checkpoint.partition)
      }
    }
    for (const claim of intake.claims) rooms.set(claim, Latch.makeUnsafe(true))
    opened = true
    return 'open' as const
  })

  return {
    open,
    extents,
    isOpen: () => opened,
    claims: () => intake.claims,
    take: (limit, end) => {
      const poll = intake.take(limit, end)
      for (const { claim } of poll) {
        if (claim.waiting.length < room) rooms.get(claim)?.openUnsafe()
      }
      return poll
    },
  }
})
