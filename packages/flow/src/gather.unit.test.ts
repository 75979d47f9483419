import { assert, describe, it } from '@effect/vitest'
import { Deferred, Effect, Fiber } from 'effect'
import { TestClock } from 'effect/testing'
import { makeGather } from './gather.ts'

const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

const setUp = Effect.fnUntraced(function* (
  options: { readonly enough?: number; readonly atMost?: number } = {},
  flush: Effect.Effect<void, 'failed'> = Effect.void,
) {
  const flushed: Array<ReadonlyArray<string>> = []
  const gather = yield* makeGather({
    enough: Infinity,
    ...options,
    flush: (items: ReadonlyArray<string>) =>
      Effect.andThen(
        Effect.sync(() => void flushed.push([...items])),
        flush,
      ),
  })
  const fiber = yield* Effect.forkScoped(gather.run)
  /** The flushes so far, after this time. */
  const after = (ms: number) => TestClock.adjust(ms).pipe(Effect.andThen(settle), Effect.as(flushed))
  return { after, fiber, gather }
})

describe('a gather', () => {
  it.effect('flushes together what was added in the time of the first item', () =>
    Effect.gen(function* () {
      const { after, gather } = yield* setUp()
      gather.add('a', 40)
      yield* after(39)
      gather.add('b', 40)
      assert.deepStrictEqual(yield* after(0), [])
      assert.deepStrictEqual(yield* after(1), [['a', 'b']])
      gather.add('c', 40)
      assert.deepStrictEqual(yield* after(40), [['a', 'b'], ['c']])
    }),
  )

  it.effect('flushes all items when the most urgent one is due', () =>
    Effect.gen(function* () {
      const { after, gather } = yield* setUp()
      gather.add('a', 40)
      yield* after(5)
      gather.add('b', 10)
      assert.deepStrictEqual(yield* after(9), [])
      assert.deepStrictEqual(yield* after(1), [['a', 'b']])
      gather.add('c', 40)
      gather.add('d', 0)
      assert.deepStrictEqual(yield* after(0), [
        ['a', 'b'],
        ['c', 'd'],
      ])
      gather.add('e', 40)
      gather.hurry()
      assert.strictEqual((yield* after(0)).length, 3)
    }),
  )

  it.effect('flushes at once when enough items wait, and as many as it may together', () =>
    Effect.gen(function* () {
      const { after, gather } = yield* setUp({ enough: 3, atMost: 2 })
      gather.add('a', 40)
      gather.add('b', 40)
      assert.deepStrictEqual(yield* after(0), [])
      gather.add('c', 40)
      assert.deepStrictEqual(yield* after(0), [['a', 'b'], ['c']])
    }),
  )

  it.effect('gathers what is added during a flush for the next one', () =>
    Effect.gen(function* () {
      const barrier = yield* Deferred.make<void>()
      const { after, gather } = yield* setUp({}, Deferred.await(barrier))
      gather.add('a', 0)
      yield* after(0)
      gather.add('b', 10)
      gather.add('c', 0)
      assert.deepStrictEqual(yield* after(10), [['a']])
      assert.deepStrictEqual([...gather.waiting()], ['b', 'c'])
      yield* Deferred.succeed(barrier, undefined)
      assert.deepStrictEqual(yield* after(0), [['a'], ['b', 'c']])
    }),
  )

  it.effect('ends when a flush fails', () =>
    Effect.gen(function* () {
      const { fiber, gather } = yield* setUp({}, Effect.fail('failed'))
      gather.add('a', 0)
      assert.strictEqual(yield* Effect.flip(Fiber.join(fiber)), 'failed')
    }),
  )
})
