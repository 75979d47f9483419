import { assert, describe, it } from '@effect/vitest'
import { Duration, Effect, Exit, Fiber, Layer, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { HttpEdge } from './edge.ts'
import { gracefulShutdown } from './graceful-shutdown.ts'

describe('graceful shutdown', () => {
  it.effect('enters draining at once, and closes the layers below after the delay', () =>
    Effect.gen(function* () {
      const states: Array<string> = []
      let isClosed = false
      const edge = HttpEdge.of({
        docBase: '',
        state: () => 'serving',
        enter: (state: 'serving' | 'draining') => void states.push(state),
        onDraining: () => {},
      } as unknown as HttpEdge['Service'])
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
          Layer.provide(Layer.succeed(HttpEdge)(edge)),
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
