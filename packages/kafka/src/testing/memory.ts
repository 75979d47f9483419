/**
 * The event log and its groups in memory: the test double at the port, held to the same contract suite as
 * the real one. One process, one delivery at a time for each member; nothing is kept.
 */
import { Clock, Context, Effect, Exit, Fiber, Latch, Layer, Scope, Semaphore } from 'effect'
import {
  reportedShards,
  type CurrentAssignment,
  retainedShards,
  NO_ASSIGNMENT,
  assignWithStandby,
} from '../consumer/assignor.ts'
import { beforeNewer } from '../records/newer-schema.ts'
import { partitionFor } from '../log/partitioner.ts'
import {
  KafkaUnavailable,
  ConsumerGroups,
  EventLog,
  type GroupControl,
  type GroupHandler,
  type GroupOptions,
  type IncomingRecord,
  type OutgoingRecord,
  type Position,
} from '../port.ts'

/** How Kafka behaves: it works, it is not there, or it takes what it is given and never answers. */
export type BrokerState = 'up' | 'refusing' | 'hanging'

/** What a test can do to Kafka and see of it. */
export class MemoryKafka extends Context.Service<
  MemoryKafka,
  {
    readonly set: (state: BrokerState) => Effect.Effect<void>
    /** Everything in a topic, partition by partition. */
    readonly records: (topic: string) => ReadonlyArray<ReadonlyArray<IncomingRecord>>
  }
>()('@hub/kafka/MemoryKafka') {}

const DEADLINE_MS = 1000
const REVOKE_WITHIN_MS = 2500
const FAILED_BATCH_PAUSE_MS = 50
const MAX_BATCH = 500

const placeOf = (topic: string, partition: number) => `${topic}/${partition}`

interface Place {
  readonly topic: string
  readonly partition: number
  position: number | undefined
  seeks: number
  paused: boolean
  waiting: boolean
}

interface Member {
  readonly id: string
  readonly topics: ReadonlyArray<string>
  readonly handler: GroupHandler
  readonly control: GroupControl
  readonly places: Map<string, Place>
  readonly standbyTopic: string | undefined
  holding: CurrentAssignment
  isNewcomer: boolean
  rebalancing: boolean
  /** The delivering fiber; none while the group rebalances. */
  delivering: Fiber.Fiber<void> | undefined
}

interface Group {
  readonly members: Map<string, Member>
  readonly committed: Map<string, number>
  readonly turn: Semaphore.Semaphore
  generation: number
}

const make = Effect.fnUntraced(function* (partitions: number) {
  const topics = new Map<string, Array<Array<IncomingRecord>>>()
  const groups = new Map<string, Group>()
  const scope = yield* Effect.scope
  const context = yield* Effect.context<never>()
  let state: BrokerState = 'up'
  let members = 0
  let arrivals = Latch.makeUnsafe(false)
  let restored = Latch.makeUnsafe(true)

  const wake = () => {
    const before = arrivals
    arrivals = Latch.makeUnsafe(false)
    before.openUnsafe()
  }
  const topicOf = (name: string) => {
    let topic = topics.get(name)
    if (topic === undefined) topics.set(name, (topic = Array.from({ length: partitions }, () => [])))
    return topic
  }

  const write = (records: ReadonlyArray<OutgoingRecord>, at: number): ReadonlyArray<Position> => {
    const positions = records.map((record) => {
      const partition = record.partition ?? partitionFor(record.key, partitions)
      const log = topicOf(record.topic)[partition]!
      log.push({
        topic: record.topic,
        partition,
        offset: log.length,
        key: record.key,
        type: record.type,
        id: record.id,
        occurredAt: record.occurredAt,
        traceparent: record.traceparent ?? null,
        appendedAt: at,
        ...(record.headers === undefined ? {} : { headers: record.headers }),
        value: record.value,
      })
      return { topic: record.topic, partition, offset: log.length - 1 }
    })
    wake()
    return positions
  }

  const append: EventLog['Service']['append'] = Effect.fnUntraced(function* (records, options) {
    if (records.length === 0) return []
    if (state === 'refusing') return yield* new KafkaUnavailable({ reason: 'refused', detail: 'not there' })
    if (records.some(({ partition = 0 }) => partition < 0 || partition >= partitions)) {
      return yield* new KafkaUnavailable({ reason: 'rejected', detail: 'no such partition' })
    }
    if (state === 'hanging') {
      yield* restored.await.pipe(
        Effect.timeoutOrElse({
          duration: options?.deadlineMs ?? DEADLINE_MS,
          orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'no answer' })),
        }),
      )
    }
    return write(records, yield* Clock.currentTimeMillis)
  })

  const unlessDown = <A>(answer: () => A): Effect.Effect<A, KafkaUnavailable> =>
    Effect.suspend(() =>
      state === 'up'
        ? Effect.succeed(answer())
        : Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'not there' })),
    )

  const controlOf = (
    group: Group,
    places: Map<string, Place>,
    member: () => Member,
    takeOver: () => void,
  ): GroupControl => {
    const setPaused = (topic: string, partition: number, paused: boolean) => {
      const place = places.get(placeOf(topic, partition))
      if (place === undefined) return
      place.paused = paused
      wake()
    }
    return {
      seek: ({ topic, partition, offset }) => {
        const place = places.get(placeOf(topic, partition))
        if (place === undefined) return
        place.position = Math.max(0, offset)
        place.seeks++
        wake()
      },
      pause: (topic, partition) => setPaused(topic, partition, true),
      resume: (topic, partition) => setPaused(topic, partition, false),
      owns: (shard) => member().holding.shards.has(shard),
      takeOver,
      hasLease: () => !member().rebalancing,
      commit: (positions) =>
        unlessDown(() => {
          for (const { topic, partition, offset } of positions) {
            const place = placeOf(topic, partition)
            if (member().holding.shards.has(partition) && places.has(place))
              group.committed.set(place, offset)
          }
        }),
      offsets: (shards) =>
        unlessDown(() =>
          member().topics.flatMap((topic) =>
            shards.map((partition) => ({
              topic,
              partition,
              committed: group.committed.get(placeOf(topic, partition)) ?? -1,
              low: 0,
              high: topicOf(topic)[partition]?.length ?? 0,
            })),
          ),
        ),
      offsetRanges: (topic) =>
        unlessDown(() => topicOf(topic).map((log, partition) => ({ partition, low: 0, high: log.length }))),
    }
  }

  const nextPlace = (member: Member) =>
    [...member.places.values()].find(
      ({ topic, partition, position = 0, paused, waiting }) =>
        !paused && !waiting && position < topicOf(topic)[partition]!.length,
    )

  const deliver = Effect.fnUntraced(function* (member: Member) {
    for (;;) {
      const news = arrivals
      const place = member.rebalancing ? undefined : nextPlace(member)
      if (place === undefined) {
        yield* news.await
        continue
      }
      const { topic, partition, seeks } = place
      const from = place.position ?? 0
      const found = topicOf(topic)[partition]!.slice(from, from + MAX_BATCH)
      const records = beforeNewer(found)
      place.position = from
      // A batch that has begun ends, and the position with it, before its shard is given away.
      const exit =
        records.length === 0
          ? Exit.void
          : yield* Effect.exit(member.handler.onBatch(topic, partition, records)).pipe(
              Effect.tap((ended) =>
                Effect.sync(() => {
                  if (Exit.isSuccess(ended) && place.seeks === seeks) place.position = from + records.length
                }),
              ),
              Effect.uninterruptible,
            )
      if (Exit.isFailure(exit) || records.length < found.length) {
        place.waiting = true
        yield* Effect.sleep(FAILED_BATCH_PAUSE_MS).pipe(
          Effect.andThen(
            Effect.sync(() => {
              place.waiting = false
              wake()
            }),
          ),
          Effect.forkIn(scope),
        )
      }
    }
  })

  const revoke = Effect.fnUntraced(function* (member: Member) {
    member.rebalancing = true
    const { delivering } = member
    member.delivering = undefined
    const drained = Effect.all(
      [
        delivering === undefined ? Effect.void : Fiber.interrupt(delivering),
        member.holding.generation < 0 ? Effect.void : member.handler.onRevoking,
      ],
      { concurrency: 'unbounded', discard: true },
    )
    yield* Effect.timeoutOption(Effect.exit(drained), REVOKE_WITHIN_MS)
  })

  /** Everybody rejoins: all hands off, new shares, all hands on. */
  const rebalance = Effect.fnUntraced(function* (group: Group) {
    yield* Effect.forEach(group.members.values(), revoke, { concurrency: 'unbounded', discard: true })
    group.generation++
    const shares = assignWithStandby(
      [...group.members.values()].map(({ holding, id, isNewcomer }) => {
        const { generation, shards } = reportedShards(holding, isNewcomer)
        return { memberId: id, generation, shards: [...shards] }
      }),
      partitions,
    )
    for (const member of group.members.values()) {
      const { shards, standby } = shares.get(member.id)!
      const { generation } = group
      const holding = { generation, shards: new Set(shards), standby: new Set(standby) }
      const retained = retainedShards(member.holding, holding)
      const earlier = new Map(member.places)
      member.places.clear()
      for (const topic of member.topics) {
        for (const partition of topic === member.standbyTopic ? [...shards, ...standby] : shards) {
          const key = placeOf(topic, partition)
          const known = retained.has(partition) ? earlier.get(key) : undefined
          member.places.set(
            key,
            known ?? {
              topic,
              partition,
              position: group.committed.get(key),
              seeks: 0,
              paused: false,
              waiting: false,
            },
          )
        }
      }
      member.holding = holding
      if (shards.length > 0) member.isNewcomer = false
      member.rebalancing = false
      member.handler.onAssigned({ generation, shards, standby, retained }, member.control)
      member.delivering = yield* Effect.forkIn(deliver(member), scope)
    }
  })

  const join = Effect.fnUntraced(function* (
    options: GroupOptions,
    handler: GroupHandler,
  ): Effect.fn.Return<{ readonly isHealthy: Effect.Effect<boolean> }, KafkaUnavailable, Scope.Scope> {
    if (state !== 'up') return yield* new KafkaUnavailable({ reason: 'refused', detail: 'not there' })
    let group = groups.get(options.group)
    if (group === undefined) {
      group = { members: new Map(), committed: new Map(), turn: Semaphore.makeUnsafe(1), generation: 0 }
      groups.set(options.group, group)
    }
    const joined = group
    const places = new Map<string, Place>()
    const takeOver = () => {
      if (!member.isNewcomer || member.holding.standby.size === 0) return
      member.isNewcomer = false
      Effect.runForkWith(context)(Effect.forkIn(rebalance(joined).pipe(joined.turn.withPermits(1)), scope))
    }
    const member: Member = {
      id: `member-${String(members++).padStart(6, '0')}`,
      topics: options.topics,
      handler,
      control: controlOf(joined, places, () => member, takeOver),
      places,
      standbyTopic: options.standbyTopic,
      holding: NO_ASSIGNMENT,
      isNewcomer: options.standbyTopic !== undefined,
      rebalancing: true,
      delivering: undefined,
    }
    yield* Effect.acquireRelease(
      Effect.suspend(() => {
        joined.members.set(member.id, member)
        return rebalance(joined)
      }).pipe(joined.turn.withPermits(1)),
      () =>
        Effect.gen(function* () {
          yield* revoke(member)
          joined.members.delete(member.id)
          member.holding = NO_ASSIGNMENT
          member.places.clear()
          yield* rebalance(joined)
        }).pipe(joined.turn.withPermits(1)),
    )
    return { isHealthy: Effect.sync(() => joined.members.has(member.id) && !member.rebalancing) }
  })

  return Context.make(EventLog, { append, partitionOf: (key) => partitionFor(key, partitions) }).pipe(
    Context.add(ConsumerGroups, { join }),
    Context.add(MemoryKafka, {
      set: (next) =>
        Effect.sync(() => {
          state = next
          if (next === 'hanging') restored = Latch.makeUnsafe(false)
          else restored.openUnsafe()
        }),
      records: topicOf,
    }),
  )
})

/** The port's services in memory. Every topic exists, with so many partitions. */
export const layerMemory = (partitions: number): Layer.Layer<EventLog | ConsumerGroups | MemoryKafka> =>
  Layer.effectContext(make(partitions))
