/** How a shard moves to a new member that first reads its log on standby. */
import { assert, describe, it } from '@effect/vitest'
import { ConsumerGroups, EventLog, type OutgoingRecord, topicNames } from '@hub/kafka'
import { layerMemory, MemoryKafka } from '@hub/kafka/testing'
import { Deferred, Effect, Latch } from 'effect'
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
      const second = yield* member({
        onRead: () => {
          readAhead += 1
        },
      })
      yield* second.hasOpened(1)
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
    }).pipe(Effect.scoped, Effect.provide(layerMemory(SHARDS))),
  )

  it.effect('continues where the owner was, even if the owner had not finished recovery', () =>
    Effect.gen(function* () {
      yield* filled
      const halfway = yield* Deferred.make<void>()
      let read = 0
      const first = yield* member({
        onRead: () => {
          read += 1
          if (read === RECORDS / 2) Deferred.doneUnsafe(halfway, Effect.void)
        },
      })
      yield* Deferred.await(halfway)
      const second = yield* member()
      yield* Effect.all([second.hasOpened(1), first.hasOpened(1)])
      const [moved] = [...second.recovered.keys()]
      const kept = 1 - moved!
      assert.strictEqual(second.times[kept]!.size, 0)
      assert.strictEqual(first.times[kept]!.size, RECORDS)
      assert.isTrue(once(first.times[0]!) && once(first.times[1]!))
      assert.strictEqual(second.times[moved!]!.size, RECORDS)
      assert.isTrue(once(second.times[moved!]!))
    }).pipe(Effect.scoped, Effect.provide(layerMemory(SHARDS))),
  )

  it.effect('appends no fence without a lease, because another member may own it already', () =>
    Effect.gen(function* () {
      const kafka = yield* MemoryKafka
      const groups = yield* ConsumerGroups
      let hasLease = false
      const { hasOpened } = yield* member().pipe(
        Effect.provideService(ConsumerGroups, {
          join: (options, handler) =>
            groups.join(options, {
              ...handler,
              onAssigned: (assignment, control) =>
                handler.onAssigned(assignment, {
                  ...control,
                  hasLease: () => hasLease && control.hasLease(),
                }),
            }),
        }),
      )
      yield* TestClock.adjust('1 second')
      assert.lengthOf(kafka.records(topics.messages).flat(), 0)
      hasLease = true
      yield* TestClock.adjust('200 millis')
      yield* hasOpened(SHARDS)
      assert.lengthOf(kafka.records(topics.messages).flat(), SHARDS)
    }).pipe(Effect.scoped, Effect.provide(layerMemory(SHARDS))),
  )

  it.effect('is taken over after ten seconds in any case, and opens only after it has read the rest', () =>
    Effect.gen(function* () {
      yield* filled
      const kafka = yield* MemoryKafka
      let closed = 0
      const first = yield* member({
        onClosed: () => {
          closed += 1
        },
      })
      yield* first.hasOpened(SHARDS)
      // It cannot learn where its log ends.
      const second = yield* member({ onCreated: () => Effect.runSync(kafka.set('refusing')) })
      yield* TestClock.adjust('9900 millis')
      assert.strictEqual(closed, 0)
      yield* TestClock.adjust('300 millis')
      assert.strictEqual(closed, 1)
      yield* kafka.set('up')
      yield* TestClock.adjust('300 millis')
      yield* second.hasOpened(1)
      const [moved] = [...second.recovered.keys()]
      assert.strictEqual(second.times[moved!]!.size, RECORDS)
    }).pipe(Effect.scoped, Effect.provide(layerMemory(SHARDS))),
  )
})
