import { assert, describe, it } from '@effect/vitest'
import { Duration, Effect, Exit, Fiber, Layer, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { gracefulShutdown, Serving } from './serving.ts'

describe('graceful shutdown', () => {
  it.effect('enters draining at once, and closes the layers below after the delay', () =>
    Effect.gen(function* () {
      const states: Array<string> = []
      let isClosed = false
      const serving = Serving.of({
        state: () => 'serving',
        enter: (state) => void states.push(state),
        draining: Promise.resolve(),
      })
      const listener = Layer.effectDiscard(
        Effect.addFinalizer(() =>
          Effect.sync(() => {
            isClosed = true
          }),
        ),
      )
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(
        gracefulShutdown(Duration.seconds(2)).pipe(
          Layer.provideMerge(listener),
          Layer.provide(Layer.succeed(Serving)(serving)),
        ),
        scope,
      )
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust('1900 millis')
      assert.deepStrictEqual(states, ['draining'])
      assert.isFalse(isClosed)
      yield* TestClock.adjust('100 millis')
      yield* Fiber.join(closing)
      assert.isTrue(isClosed)
    }),
  )
})
