import { assert, describe, it } from '@effect/vitest'
import { Data, Deferred, Effect, Stream } from 'effect'
import { TestClock } from 'effect/testing'
import { keepFloodWindowsReady } from './keep-flood-windows-ready.ts'
import { MemoryCounters, memoryCounters } from './memory.ts'
import { Counters } from './port.ts'

class SourceBroke extends Data.TaggedError('SourceBroke')<{}> {}

const empty = memoryCounters({ generation: 'empty' })

describe('keepFloodWindowsReady', () => {
  it.effect('rebuilds at the start, and after the store has lost its data', () =>
    Effect.gen(function* () {
      const { generation } = yield* Counters
      const store = yield* MemoryCounters
      let runs = 0
      yield* keepFloodWindowsReady(Stream.fromEffectDrain(Effect.sync(() => runs++)))
      assert.strictEqual(yield* generation.state, 'ready')
      yield* TestClock.adjust('10 seconds')
      assert.strictEqual(runs, 1)
      yield* store.empty
      assert.strictEqual(yield* generation.state, 'empty')
      yield* TestClock.adjust('1 second')
      assert.strictEqual(yield* generation.state, 'ready')
      assert.strictEqual(runs, 2)
    }).pipe(Effect.scoped, Effect.provide(empty)),
  )

  it.effect('retries after an outage of the store or of the source', () =>
    Effect.gen(function* () {
      const { generation } = yield* Counters
      const store = yield* MemoryCounters
      let runs = 0
      yield* store.set('hanging')
      yield* keepFloodWindowsReady(
        Stream.fromEffectDrain(
          Effect.suspend(() => [Effect.fail(new SourceBroke()), Effect.die('broken')][runs++] ?? Effect.void),
        ),
      )
      yield* TestClock.adjust('5 seconds')
      assert.strictEqual(runs, 0)
      yield* store.set('up')
      yield* TestClock.adjust('2 seconds')
      assert.strictEqual(yield* generation.state, 'empty')
      assert.strictEqual(runs, 2)
      yield* TestClock.adjust('1 second')
      assert.strictEqual(yield* generation.state, 'ready')
    }).pipe(Effect.scoped, Effect.provide(empty)),
  )

  it.effect('delays the start for a bounded time only', () =>
    Effect.gen(function* () {
      const { generation } = yield* Counters
      const rest = yield* Deferred.make<void>()
      const start = yield* Effect.forkChild(
        keepFloodWindowsReady(Stream.fromEffectDrain(Deferred.await(rest))),
      )
      yield* TestClock.adjust('1999 millis')
      assert.isUndefined(start.pollUnsafe())
      yield* TestClock.adjust('1 millis')
      assert.isDefined(start.pollUnsafe())
      assert.strictEqual(yield* generation.state, 'rebuilding')
      yield* Deferred.succeed(rest, undefined)
      yield* TestClock.adjust('1 second')
      assert.strictEqual(yield* generation.state, 'ready')
    }).pipe(Effect.scoped, Effect.provide(empty)),
  )
})
