/**
 * The in-memory adapter of the port, for tests. It passes the same contract suite as the kafkajs
 * adapter. It works within one process, delivers one batch at a time to each member, and stores
 * nothing.
 */
import { Clock, Context, Effect, Exit, Fiber, Latch, Layer, Scope, Semaphore } from 'effect'
import {
  reportedShards,
  type CurrentAssignment,
  retainedShards,
  NO_ASSIGNMENT,
  assignWithStandby,
} from '../consumer/assignor.ts'
import { ErasureTopic } from '../erasures/erasure-topic.ts'
import { PayloadKeyTopics } from '../payload-keys/payload-key-topics.ts'
import { topicNames } from '../topics/catalogue.ts'
import { beforeNewer } from '../records/newer-schema.ts'
import { partitionFor } from '../log/partitioner.ts'
import { partitionKey } from '../partition-key.ts'
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
  TopicReader,
} from '../port.ts'

/** Available, refusing connections, or accepting requests without an answer. */
export type BrokerState = 'up' | 'refusing' | 'hanging'

/** The controls of a test. */
export class MemoryKafka extends Context.Service<
  MemoryKafka,
  {
    readonly set: (state: BrokerState) => Effect.Effect<void>
    /** All records of a topic, for each partition. */
    readonly records: (topic: string) => ReadonlyArray<ReadonlyArray<IncomingRecord>>
  }
>()('@hub/kafka/MemoryKafka') {}

const DEADLINE_MS = 5000
const REVOKE_WITHIN_MS = 2500
const RETRY_DELAY_MS = 50
const MAX_BATCH = 500

interface PartitionState {
  readonly topic: string
  readonly partition: number
  position: number | undefined
  seeks: number
  isPaused: boolean
  isWaiting: boolean
}

interface Member {
  readonly id: string
  readonly topics: ReadonlyArray<string>
  readonly handler: GroupHandler
  readonly control: GroupControl
  readonly partitionStates: Map<string, PartitionState>
  readonly standbyTopic: string | undefined
  assignment: CurrentAssignment
  isNewMember: boolean
  isRebalancing: boolean
  /** The delivery loop; `undefined` while the group rebalances. */
  delivering: Fiber.Fiber<void> | undefined
}

interface Group {
  readonly members: Map<string, Member>
  readonly committed: Map<string, number>
  /** Permits one rebalance at a time. */
  readonly rebalanceLock: Semaphore.Semaphore
  generation: number
}

const make = Effect.fnUntraced(function* (partitions: number) {
  const topics = new Map<string, Array<Array<IncomingRecord>>>()
  const groups = new Map<string, Group>()
  const scope = yield* Effect.scope
  const context = yield* Effect.context<never>()
  let brokerState: BrokerState = 'up'
  let members = 0
  let changed = Latch.makeUnsafe(false)
  let available = Latch.makeUnsafe(true)

  const notify = () => {
    const before = changed
    changed = Latch.makeUnsafe(false)
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
    notify()
    return positions
  }

  const append: EventLog['Service']['append'] = Effect.fnUntraced(function* (records, options) {
    if (records.length === 0) return []
    if (brokerState === 'refusing')
      return yield* new KafkaUnavailable({ reason: 'refused', detail: 'unavailable', notAppended: true })
    if (records.some(({ partition = 0 }) => partition < 0 || partition >= partitions)) {
      return yield* new KafkaUnavailable({ reason: 'rejected', detail: 'unknown partition' })
    }
    if (brokerState === 'hanging') {
      yield* available.await.pipe(
        Effect.timeoutOrElse({
          duration: options?.deadlineMs ?? DEADLINE_MS,
          orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'no answer' })),
        }),
      )
    }
    return write(records, yield* Clock.currentTimeMillis)
  })

  const ifAvailable = <A>(answer: () => A): Effect.Effect<A, KafkaUnavailable> =>
    Effect.suspend(() =>
      brokerState === 'up'
        ? Effect.succeed(answer())
        : Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'unavailable' })),
    )

  const readAll: TopicReader['Service']['readAll'] = (topic) => ifAvailable(() => topicOf(topic).flat())

  const readKey: TopicReader['Service']['readKey'] = ({ from, key, partition, to, topic }) =>
    ifAvailable(() =>
      (topicOf(topic)[partition] ?? []).filter(
        (record) => record.key === key && record.appendedAt >= from && record.appendedAt < to,
      ),
    )

  const readPeriod: TopicReader['Service']['readPeriod'] = ({ from, to, topic, wanted }) =>
    ifAvailable(() =>
      topicOf(topic)
        .flat()
        .filter((record) => record.appendedAt >= from && record.appendedAt < to && wanted(record)),
    )

  const controlOf = (
    group: Group,
    partitionStates: Map<string, PartitionState>,
    member: () => Member,
    takeOver: () => void,
  ): GroupControl => {
    const setPaused = (topic: string, partition: number, isPaused: boolean) => {
      const state = partitionStates.get(partitionKey(topic, partition))
      if (state === undefined) return
      state.isPaused = isPaused
      notify()
    }
    return {
      seek: ({ topic, partition, offset }) => {
        const state = partitionStates.get(partitionKey(topic, partition))
        if (state === undefined) return
        state.position = Math.max(0, offset)
        state.seeks++
        notify()
      },
      pause: (topic, partition) => setPaused(topic, partition, true),
      resume: (topic, partition) => setPaused(topic, partition, false),
      owns: (shard) => member().assignment.shards.has(shard),
      takeOver,
      hasLease: () => !member().isRebalancing,
      commit: (positions) =>
        ifAvailable(() => {
          for (const { topic, partition, offset } of positions) {
            const key = partitionKey(topic, partition)
            if (member().assignment.shards.has(partition) && partitionStates.has(key))
              group.committed.set(key, offset)
          }
        }),
      offsets: (shards) =>
        ifAvailable(() =>
          member().topics.flatMap((topic) =>
            shards.map((partition) => ({
              topic,
              partition,
              committed: group.committed.get(partitionKey(topic, partition)) ?? -1,
              low: 0,
              high: topicOf(topic)[partition]?.length ?? 0,
            })),
          ),
        ),
      offsetRanges: (topic) =>
        ifAvailable(() => topicOf(topic).map((log, partition) => ({ partition, low: 0, high: log.length }))),
      ends: (topic) =>
        ifAvailable(() => new Map(topicOf(topic).map((log, partition) => [partition, log.length]))),
    }
  }

  const nextPartition = (member: Member) =>
    [...member.partitionStates.values()].find(
      ({ topic, partition, position = 0, isPaused, isWaiting }) =>
        !isPaused && !isWaiting && position < topicOf(topic)[partition]!.length,
    )

  const deliver = Effect.fnUntraced(function* (member: Member) {
    for (;;) {
      const nextChange = changed
      const state = member.isRebalancing ? undefined : nextPartition(member)
      if (state === undefined) {
        yield* nextChange.await
        continue
      }
      const { topic, partition, seeks } = state
      const from = state.position ?? 0
      const found = topicOf(topic)[partition]!.slice(from, from + MAX_BATCH)
      const records = beforeNewer(found)
      state.position = from
      // A batch ends, and its position is stored, before its shard can move to another member.
      const exit =
        records.length === 0
          ? Exit.void
          : yield* Effect.exit(member.handler.onBatch(topic, partition, records)).pipe(
              Effect.tap((ended) =>
                Effect.sync(() => {
                  if (Exit.isSuccess(ended) && state.seeks === seeks) state.position = from + records.length
                }),
              ),
              Effect.uninterruptible,
            )
      if (Exit.isFailure(exit) || records.length < found.length) {
        state.isWaiting = true
        yield* Effect.sleep(RETRY_DELAY_MS).pipe(
          Effect.andThen(
            Effect.sync(() => {
              state.isWaiting = false
              notify()
            }),
          ),
          Effect.forkIn(scope),
        )
      }
    }
  })

  const revoke = Effect.fnUntraced(function* (member: Member) {
    member.isRebalancing = true
    const { delivering } = member
    member.delivering = undefined
    const finished = Effect.all(
      [
        delivering === undefined ? Effect.void : Fiber.interrupt(delivering),
        member.assignment.generation < 0 ? Effect.void : member.handler.onRevoking,
      ],
      { concurrency: 'unbounded', discard: true },
    )
    yield* Effect.timeoutOption(Effect.exit(finished), REVOKE_WITHIN_MS)
  })

  /** Revokes all shards, assigns them again, and starts the delivery. */
  const rebalance = Effect.fnUntraced(function* (group: Group) {
    yield* Effect.forEach(group.members.values(), revoke, { concurrency: 'unbounded', discard: true })
    group.generation++
    const assigned = assignWithStandby(
      [...group.members.values()].map(({ assignment, id, isNewMember }) => {
        const { generation, shards } = reportedShards(assignment, isNewMember)
        return { memberId: id, generation, shards: [...shards] }
      }),
      partitions,
    )
    for (const member of group.members.values()) {
      const { shards, standby } = assigned.get(member.id)!
      const { generation } = group
      const assignment = { generation, shards: new Set(shards), standby: new Set(standby) }
      const retained = retainedShards(member.assignment, assignment)
      const previous = new Map(member.partitionStates)
      member.partitionStates.clear()
      for (const topic of member.topics) {
        for (const partition of topic === member.standbyTopic ? [...shards, ...standby] : shards) {
          const key = partitionKey(topic, partition)
          const known = retained.has(partition) ? previous.get(key) : undefined
          member.partitionStates.set(
            key,
            known ?? {
              topic,
              partition,
              position: group.committed.get(key),
              seeks: 0,
              isPaused: false,
              isWaiting: false,
            },
          )
        }
      }
      member.assignment = assignment
      if (shards.length > 0) member.isNewMember = false
      member.isRebalancing = false
      member.handler.onAssigned({ generation, shards, standby, retained }, member.control)
      member.delivering = yield* Effect.forkIn(deliver(member), scope)
    }
  })

  const join = Effect.fnUntraced(function* (
    options: GroupOptions,
    handler: GroupHandler,
  ): Effect.fn.Return<{ readonly isHealthy: Effect.Effect<boolean> }, KafkaUnavailable, Scope.Scope> {
    if (brokerState !== 'up') return yield* new KafkaUnavailable({ reason: 'refused', detail: 'unavailable' })
    let group = groups.get(options.group)
    if (group === undefined) {
      group = {
        members: new Map(),
        committed: new Map(),
        rebalanceLock: Semaphore.makeUnsafe(1),
        generation: 0,
      }
      groups.set(options.group, group)
    }
    const joined = group
    const partitionStates = new Map<string, PartitionState>()
    const takeOver = () => {
      if (!member.isNewMember || member.assignment.standby.size === 0) return
      member.isNewMember = false
      Effect.runForkWith(context)(
        Effect.forkIn(rebalance(joined).pipe(joined.rebalanceLock.withPermits(1)), scope),
      )
    }
    const member: Member = {
      id: `member-${String(members++).padStart(6, '0')}`,
      topics: options.topics,
      handler,
      control: controlOf(joined, partitionStates, () => member, takeOver),
      partitionStates,
      standbyTopic: options.standbyTopic,
      assignment: NO_ASSIGNMENT,
      isNewMember: options.standbyTopic !== undefined,
      isRebalancing: true,
      delivering: undefined,
    }
    yield* Effect.acquireRelease(
      Effect.suspend(() => {
        joined.members.set(member.id, member)
        return rebalance(joined)
      }).pipe(joined.rebalanceLock.withPermits(1)),
      () =>
        Effect.gen(function* () {
          yield* revoke(member)
          joined.members.delete(member.id)
          member.assignment = NO_ASSIGNMENT
          member.partitionStates.clear()
          yield* rebalance(joined)
        }).pipe(joined.rebalanceLock.withPermits(1)),
    )
    return { isHealthy: Effect.sync(() => joined.members.has(member.id) && !member.isRebalancing) }
  })

  return Context.make(EventLog, { append, partitionOf: (key) => partitionFor(key, partitions) }).pipe(
    Context.add(ConsumerGroups, { join }),
    Context.add(TopicReader, { readAll, readKey, readPeriod }),
    Context.add(MemoryKafka, {
      set: (next) =>
        Effect.sync(() => {
          brokerState = next
          if (next === 'hanging') available = Latch.makeUnsafe(false)
          else available.openUnsafe()
        }),
      records: topicOf,
    }),
  )
})

/** Every topic exists, with this number of partitions. */
export const layerMemory = (
  partitions: number,
): Layer.Layer<EventLog | ConsumerGroups | TopicReader | MemoryKafka> => Layer.effectContext(make(partitions))

/** The topics of the payload keys in memory, for tests without Kafka. */
export const layerMemoryPayloadKeys: Layer.Layer<PayloadKeyTopics> = PayloadKeyTopics.layer(
  topicNames(),
).pipe(Layer.provide(layerMemory(1)))

/** The topic of the erasures in memory. */
export const layerMemoryErasures: Layer.Layer<ErasureTopic> = ErasureTopic.layer(topicNames()).pipe(
  Layer.provide(layerMemory(1)),
)
