import { assert, describe, it } from '@effect/vitest'
import { EventLog, type OutgoingRecord, type Position } from '@hub/kafka'
import { Clock, Deferred, Effect } from 'effect'
import { TestClock } from 'effect/testing'
import { makeAppender } from './appender.ts'
import type { Urgency } from './shard.ts'

const recordOf = (id: string): OutgoingRecord => ({
  topic: 'log',
  key: id,
  partition: 0,
  type: 'MessageSent',
  id,
  occurredAt: 0,
  value: new Uint8Array(),
})

const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

/** Runs an appender on an event log that acknowledges at once. `appends` has the ids of each append. */
const setUp = Effect.gen(function* () {
  const appends: Array<ReadonlyArray<string>> = []
  const log = EventLog.of({
    append: (records) =>
      Effect.sync(() => {
        appends.push(records.map(({ id }) => id))
        return records.map(({ topic }, offset): Position => ({ topic, partition: 0, offset }))
      }),
    partitionOf: () => 0,
  })
  const appender = yield* makeAppender({ onSettled: () => {}, mayGather: () => true }).pipe(
    Effect.provideService(EventLog, log),
  )
  yield* Effect.forkScoped(appender.run)
  const append = (id: string, urgency: Urgency) =>
    appender.append(recordOf(id), { urgency, isWanted: () => true, onAppended: () => {} })
  /** Appends so far, after this time. */
  const after = (ms: number) => TestClock.adjust(ms).pipe(Effect.andThen(settle), Effect.as(appends))
  return { append, after }
})

describe('the appender', () => {
  it.effect('appends a record after 10 ms, and after 40 ms if it may be later', () =>
    Effect.gen(function* () {
      const { after, append } = yield* setUp
      append('soon', 'soon')
      assert.deepStrictEqual(yield* after(9), [])
      assert.deepStrictEqual(yield* after(1), [['soon']])
      append('later', 'later')
      assert.deepStrictEqual(yield* after(39), [['soon']])
      assert.deepStrictEqual(yield* after(1), [['soon'], ['later']])
    }),
  )

  it.effect('says how long Kafka takes to acknowledge', () =>
    Effect.gen(function* () {
      const acknowledged = yield* Deferred.make<ReadonlyArray<Position>>()
      const log = EventLog.of({ append: () => Deferred.await(acknowledged), partitionOf: () => 0 })
      const appender = yield* makeAppender({ onSettled: () => {}, mayGather: () => false }).pipe(
        Effect.provideService(EventLog, log),
      )
      yield* Effect.forkScoped(appender.run)
      const delayMs = Effect.map(Clock.currentTimeMillis, appender.delayMs)
      assert.strictEqual(yield* delayMs, 0)
      appender.append(recordOf('a'), { urgency: 'now', isWanted: () => true, onAppended: () => {} })
      yield* settle
      yield* TestClock.adjust(300)
      assert.strictEqual(yield* delayMs, 300)
      yield* Deferred.succeed(acknowledged, [{ topic: 'log', partition: 0, offset: 0 }])
      yield* settle
      yield* TestClock.adjust(1000)
      // The last produce took so long.
      assert.strictEqual(yield* delayMs, 300)
    }),
  )

  it.effect('appends waiting records with one that is more urgent, in the order of the calls', () =>
    Effect.gen(function* () {
      const { after, append } = yield* setUp
      append('a', 'later')
      yield* after(5)
      append('b', 'soon')
      assert.deepStrictEqual(yield* after(9), [])
      assert.deepStrictEqual(yield* after(1), [['a', 'b']])
      append('c', 'later')
      append('d', 'now')
      assert.deepStrictEqual(yield* after(0), [
        ['a', 'b'],
        ['c', 'd'],
      ])
    }),
  )
})
