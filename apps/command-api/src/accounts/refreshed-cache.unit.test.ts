import { assert, describe, it } from '@effect/vitest'
import { Duration, Effect, Fiber } from 'effect'
import { TestClock } from 'effect/testing'
import { makeRefreshedCache } from './refreshed-cache.ts'

const LIFETIME_MS = 2000

/** A cache over a value that changes with each read, and a read that can take time or fail. */
const setUp = Effect.gen(function* () {
  const state = { reads: 0, takesMs: 0, fails: false, lifetimeMs: LIFETIME_MS }
  const cache = yield* makeRefreshedCache<number, string>({
    capacity: 10,
    lifetimeMs: () => state.lifetimeMs,
    read: () =>
      Effect.suspend(() => {
        const value = (state.reads += 1)
        return Effect.andThen(
          Effect.sleep(Duration.millis(state.takesMs)),
          state.fails ? Effect.fail('down') : Effect.succeed(value),
        )
      }),
  })
  return { cache, state, get: cache.get('key') }
})
const advance = (ms: number) => TestClock.adjust(Duration.millis(ms))

describe('a cached value', () => {
  it.effect('is read once by concurrent requests, and again after its lifetime', () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { get, state } = yield* setUp
        assert.deepStrictEqual(yield* Effect.all([get, get], { concurrency: 'unbounded' }), [1, 1])
        yield* advance(LIFETIME_MS)
        assert.strictEqual(yield* get, 2)
        assert.strictEqual(state.reads, 2)
      }),
    ),
  )

  it.effect('is read again before its end while it is used, and no request waits', () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { get, state } = yield* setUp
        yield* get
        state.takesMs = 400
        for (let i = 0; i < 40; i++) {
          yield* advance(250)
          // Without a wait, the fiber has ended although the time stands still.
          const fiber = yield* Effect.forkChild(get, { startImmediately: true })
          assert.isDefined(fiber.pollUnsafe(), `after ${(i + 1) * 250} ms`)
        }
        assert.isAtLeast(state.reads, 5)
      }),
    ),
  )

  it.effect('that was read slowly is read again earlier', () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { get, state } = yield* setUp
        state.takesMs = 900
        const first = yield* Effect.forkChild(get)
        yield* advance(900)
        yield* Fiber.join(first)
        yield* advance(300)
        yield* get
        yield* Effect.yieldNow
        assert.strictEqual(state.reads, 2)
      }),
    ),
  )

  it.effect('stays until its end if it cannot be read again, and is never older', () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { get, state } = yield* setUp
        yield* get
        state.fails = true
        yield* advance(LIFETIME_MS - 1)
        assert.strictEqual(yield* get, 1)
        yield* advance(1)
        assert.strictEqual(yield* Effect.flip(get), 'down')
        state.fails = false
        assert.isAbove(yield* get, 1)
      }),
    ),
  )

  it.effect('is removed if it may no longer be cached', () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { cache, get, state } = yield* setUp
        yield* get
        yield* advance(LIFETIME_MS - 100)
        state.lifetimeMs = 0
        yield* get
        yield* Effect.yieldNow
        assert.isNull(yield* cache.cached('key'))
      }),
    ),
  )

  it.effect('can be set, and is shown without a read', () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { cache, state } = yield* setUp
        assert.isNull(yield* cache.cached('key'))
        yield* cache.set('key', 17)
        assert.strictEqual(yield* cache.cached('key'), 17)
        assert.strictEqual(yield* cache.get('key'), 17)
        assert.strictEqual(state.reads, 0)
      }),
    ),
  )
})
