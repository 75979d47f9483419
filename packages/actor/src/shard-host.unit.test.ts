/** How a shard moves to a new member that first reads its log on standby. */
import { assert, describe, it } from '@effect/vitest'
import {
  ConsumerGroups,
  EventLog,
  type GroupHandler,
  KafkaUnavailable,
  type OutgoingRecord,
  topicNames,
} from '@hub/kafka'
import { layerSimulatedKafka, SimulatedKafka } from '@hub/kafka/testing'
import { Clock, Deferred, Effect, Latch } from 'effect'
import { TestClock } from 'effect/testing'
import { makeShardHost } from './shard-host.ts'
import type { Shard, ShardHandle } from './shard.ts'

const SHARDS = 2
/** Several fetches for each shard. */
const RECORDS = 2000
const topics = topicNames('')

const fact = (partition: number, index: number): OutgoingRecord => ({
  topic: topics.messages,
  partition,
  key: `${partition}`,
  type: 'Something',
  id: `${partition}-${index}`,
  occurredAt: 0,
  value: new Uint8Array(0),
})

/** A shard that counts how often it has read each log record. */
const countingShard =
  (reads: Array<Map<number, number>>, onLog: () => void) =>
  ({ shard }: ShardHandle): Shard => ({
    onLog: ({ offset }) => {
      const read = reads[shard]!
      read.set(offset, (read.get(offset) ?? 0) + 1)
      onLog()
    },
    onLane: () => {},
    onReport: () => {},
    onOpened: () => {},
    onClosed: () => {},
    onTick: () => {},
    isFull: () => false,
    hasRoom: () => true,
    reportsFull: () => false,
    reportsHaveRoom: () => true,
    // The low-water mark stays at 0, so a new owner must read the whole log.
    lowestPinned: () => ({ lanes: [null, null], log: 0, reports: null }),
    onCommitted: () => {},
  })

describe('a shard that moves to a new member', () => {
  /** A member, the records that each of its shards has read, and its recoveries. */
  const member = Effect.fnUntraced(function* (
    on: {
      readonly onRead?: () => void
      readonly onClosed?: (shard: number) => void
      readonly onCreated?: () => void
    } = {},
  ) {
    const times = Array.from({ length: SHARDS }, () => new Map<number, number>())
    const recovered = new Map<number, number>()
    let opened = Latch.makeUnsafe(false)
    yield* makeShardHost({
      group: 'shards',
      topics,
      makeShard: (handle) => {
        on.onCreated?.()
        return {
          ...countingShard(times, () => on.onRead?.())(handle),
          onClosed: () => on.onClosed?.(handle.shard),
        }
      },
      onSettled: () => {},
      mayGather: () => false,
      inFlight: () => 0,
      onRecovered: ({ records, shard }) => {
        recovered.set(shard, records)
        const before = opened
        opened = Latch.makeUnsafe(false)
        before.openUnsafe()
      },
    })
    const hasOpened = (count: number): Effect.Effect<void> =>
      Effect.suspend(() =>
        recovered.size >= count ? Effect.void : Effect.andThen(opened.await, hasOpened(count)),
      )
    return { times, recovered, hasOpened }
  })
  const filled = Effect.flatMap(EventLog, (log) =>
    log.append(
      Array.from({ length: SHARDS }, (_, partition) =>
        Array.from({ length: RECORDS }, (__, index) => fact(partition, index)),
      ).flat(),
    ),
  )
  /** Lets time pass meanwhile: a member learns of another one by its next heartbeat. */
  const whileTimePasses = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.raceFirst(
      effect,
      Effect.forever(
        Effect.andThen(TestClock.adjust('100 millis'), TestClock.withLive(Effect.sleep('1 milli'))),
      ),
    )
  /** Runs a member whose handler is changed. */
  const withHandler = <A, E, R>(
    change: (handler: GroupHandler) => GroupHandler,
    effect: Effect.Effect<A, E, R>,
  ) =>
    Effect.flatMap(ConsumerGroups, (groups) =>
      Effect.provideService(effect, ConsumerGroups, {
        join: (options, handler) => groups.join(options, change(handler)),
      }),
    )
  const once = (read: ReadonlyMap<number, number>) => [...read.values()].every((count) => count === 1)

  it.effect('reads its log once on standby while the owner works, and is then taken over', () =>
    Effect.gen(function* () {
      yield* filled
      let closedAfter = -1
      let readAhead = 0
      const first = yield* member({
        onClosed: () => {
          closedAfter = readAhead
        },
      })
      yield* first.hasOpened(SHARDS)
      const second = yield* whileTimePasses(
        member({
          onRead: () => {
            readAhead += 1
          },
        }),
      )
      yield* whileTimePasses(second.hasOpened(1))
      const [moved] = [...second.recovered.keys()]
      assert.strictEqual(second.times[1 - moved!]!.size, 0)
      assert.strictEqual(second.times[moved!]!.size, RECORDS)
      assert.isTrue(once(second.times[moved!]!))
      assert.strictEqual(
        closedAfter,
        RECORDS,
        'the owner keeps the shard until the new member has read the log',
      )
      // Only the fences are left to read.
      assert.isBelow(second.recovered.get(moved!)!, 5)
    }).pipe(Effect.scoped, Effect.provide(layerSimulatedKafka(SHARDS))),
  )

  it.effect('continues where the owner was, even if the owner had not finished recovery', () =>
    Effect.gen(function* () {
      yield* filled
      const halfway = yield* Deferred.make<void>()
      // It reads the rest when it has learned of the other member.
      const rest = Latch.makeUnsafe(true)
      let read = 0
      const first = yield* withHandler(
        (handler) => ({
          ...handler,
          onBatch: (...batch) => Effect.andThen(rest.await, handler.onBatch(...batch)),
          onRevoking: Effect.andThen(rest.open, handler.onRevoking),
        }),
        member({
          onRead: () => {
            read += 1
            if (read !== RECORDS / 2) return
            rest.closeUnsafe()
            Deferred.doneUnsafe(halfway, Effect.void)
          },
        }),
      )
      yield* Deferred.await(halfway)
      const second = yield* whileTimePasses(member())
      assert.strictEqual(first.recovered.size, 0)
      yield* whileTimePasses(Effect.all([second.hasOpened(1), first.hasOpened(1)]))
      const [moved] = [...second.recovered.keys()]
      const kept = 1 - moved!
      assert.strictEqual(second.times[kept]!.size, 0)
      assert.strictEqual(first.times[kept]!.size, RECORDS)
      assert.isTrue(once(first.times[0]!) && once(first.times[1]!))
      assert.strictEqual(second.times[moved!]!.size, RECORDS)
      assert.isTrue(once(second.times[moved!]!))
    }).pipe(Effect.scoped, Effect.provide(layerSimulatedKafka(SHARDS))),
  )

  it.effect('appends no fence without a lease, because another member may own it already', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      let hasLease = false
      const { hasOpened } = yield* withHandler(
        (handler) => ({
          ...handler,
          onAssigned: (assignment, control) =>
            handler.onAssigned(assignment, { ...control, hasLease: () => hasLease && control.hasLease() }),
        }),
        member(),
      )
      yield* TestClock.adjust('1 second')
      assert.lengthOf(kafka.records(topics.messages).flat(), 0)
      hasLease = true
      yield* TestClock.adjust('200 millis')
      yield* hasOpened(SHARDS)
      assert.lengthOf(kafka.records(topics.messages).flat(), SHARDS)
    }).pipe(Effect.scoped, Effect.provide(layerSimulatedKafka(SHARDS))),
  )

  it.effect('is taken over after ten seconds in any case, and opens only after it has read the rest', () =>
    Effect.gen(function* () {
      yield* filled
      const clock = yield* Clock.Clock
      let closed = 0
      const first = yield* member({
        onClosed: () => {
          closed += 1
        },
      })
      yield* first.hasOpened(SHARDS)
      // It cannot learn where its log ends.
      let isUnavailable = true
      let assignedAt = 0
      const takeOvers: Array<number> = []
      const second = yield* whileTimePasses(
        withHandler(
          (handler) => ({
            ...handler,
            onAssigned: (assignment, control) => {
              const unlessUnavailable = <A>(answer: Effect.Effect<A, KafkaUnavailable>) =>
                isUnavailable
                  ? Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'test' }))
                  : answer
              assignedAt = clock.currentTimeMillisUnsafe()
              handler.onAssigned(assignment, {
                ...control,
                ends: (topic) => unlessUnavailable(control.ends(topic)),
                offsets: (shards) => unlessUnavailable(control.offsets(shards)),
                takeOver: () => {
                  takeOvers.push(clock.currentTimeMillisUnsafe() - assignedAt)
                  control.takeOver()
                },
              })
            },
          }),
          member(),
        ),
      )
      yield* TestClock.adjust('9700 millis')
      assert.strictEqual(closed, 0)
      // The owner learns of it by its next heartbeat.
      yield* TestClock.adjust('900 millis')
      assert.strictEqual(closed, 1)
      assert.isTrue(takeOvers[0]! > 10_000 && takeOvers[0]! <= 10_200, `after ${takeOvers[0]} ms`)
      isUnavailable = false
      yield* whileTimePasses(second.hasOpened(1))
      const [moved] = [...second.recovered.keys()]
      assert.strictEqual(second.times[moved!]!.size, RECORDS)
    }).pipe(Effect.scoped, Effect.provide(layerSimulatedKafka(SHARDS))),
  )
})
