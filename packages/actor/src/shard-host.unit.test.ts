import { assert, describe, it } from '@effect/vitest'
import { EventLog, layerMemory, type OutgoingRecord, topicNames } from '@hub/kafka'
import { Deferred, Effect } from 'effect'
import { makeShardHost, type Shard, type ShardHandle } from './shard-host.ts'

const SHARDS = 2
/** Several deliveries of the bus for each shard. */
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

/** A shard that counts how often each record of its log was read. */
const counting =
  (times: Array<Map<number, number>>, onLog: () => void) =>
  ({ shard }: ShardHandle): Shard => ({
    onLog: ({ offset }) => {
      const read = times[shard]!
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
    needed: () => ({ lanes: [null, null], log: null, reports: null }),
    onCommitted: () => {},
  })

describe('a shard that is being recovered', () => {
  it.effect('reads on where it was when another member joins, and opens', () =>
    Effect.gen(function* () {
      const log = yield* EventLog
      yield* log.append(
        Array.from({ length: SHARDS }, (_, partition) =>
          Array.from({ length: RECORDS }, (__, index) => fact(partition, index)),
        ).flat(),
      )
      const times = Array.from({ length: SHARDS }, () => new Map<number, number>())
      const halfway = yield* Deferred.make<void>()
      const bothOpen = yield* Deferred.make<void>()
      const opened = new Set<number>()
      const recovered: Array<{ readonly shard: number; readonly records: number }> = []
      const host = (onLog: () => void, into: Array<Map<number, number>>) =>
        makeShardHost({
          group: 'shards',
          topics,
          makeShard: counting(into, onLog),
          onSettled: () => {},
          inFlight: () => 0,
          observer: {
            onRecovered: ({ records, shard }) => {
              recovered.push({ shard, records })
              opened.add(shard)
              if (opened.size === SHARDS) Deferred.doneUnsafe(bothOpen, Effect.void)
            },
          },
        })
      // Both shards are the first member's, and half read, when the second one comes and takes one of them.
      let read = 0
      yield* host(() => {
        read += 1
        if (read === RECORDS / 2) Deferred.doneUnsafe(halfway, Effect.void)
      }, times)
      yield* Deferred.await(halfway)
      const others = Array.from({ length: SHARDS }, () => new Map<number, number>())
      yield* host(() => {}, others)
      yield* Deferred.await(bothOpen)

      const moved = others.findIndex((shard) => shard.size > 0)
      const kept = 1 - moved
      assert.strictEqual(others[kept]!.size, 0)
      assert.strictEqual(times[kept]!.size, RECORDS)
      assert.deepStrictEqual(new Set(times[kept]!.values()), new Set([1]))
      assert.strictEqual(others[moved]!.size, RECORDS)
      assert.isTrue(read < SHARDS * RECORDS, 'the shard that moved was read to its end before')
      assert.deepStrictEqual(new Set(recovered.map(({ shard }) => shard)), new Set([0, 1]))
    }).pipe(Effect.scoped, Effect.provide(layerMemory(SHARDS))),
  )
})
