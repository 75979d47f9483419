import { assert, describe, it } from '@effect/vitest'
import { Effect, Fiber, Ref } from 'effect'
import { TestClock } from 'effect/testing'
import { backoffMs, backoffSchedule } from './backoff.ts'

const BACKOFF = { firstMs: 100, longestMs: 1000 }

describe('backoff', () => {
  it('doubles the pause up to the longest one', () => {
    assert.deepStrictEqual(
      [1, 2, 3, 4, 5, 1000].map((failures) => backoffMs(BACKOFF, failures)),
      [100, 200, 400, 800, 1000, 1000],
    )
  })

  it.effect('repeats without end, at most 20 % later than the pause', () =>
    Effect.gen(function* () {
      const tries = yield* Ref.make(0)
      const fiber = yield* Effect.forkChild(
        Effect.retry(
          Effect.andThen(
            Ref.update(tries, (count) => count + 1),
            Effect.fail('down'),
          ),
          backoffSchedule(BACKOFF),
        ),
      )
      // 1 at once, then after 100, 200, 400, 800 and each further 1000 ms.
      yield* TestClock.adjust(1500 * 1.2)
      assert.isAtLeast(yield* Ref.get(tries), 5)
      yield* TestClock.adjust(10_000 * 1.2)
      assert.isAtLeast(yield* Ref.get(tries), 15)
      yield* Fiber.interrupt(fiber)
    }),
  )
})
