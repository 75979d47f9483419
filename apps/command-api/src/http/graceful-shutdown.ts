/**
 * Graceful shutdown. A load balancer sends requests until it sees in `/readyz` that the process is
 * not ready. So the process reports that, serves for a while, and only then closes its listener.
 */
import { Duration, Effect, Layer } from 'effect'
import { HttpEdge } from './edge.ts'

/**
 * When the scope closes, enters `draining` and delays the finalizers of all layers below it by
 * `delay`. The listener closes the connection of each answer meanwhile, so that few connections are
 * left when it closes. List it above the listener.
 */
export const gracefulShutdown = (delay: Duration.Duration): Layer.Layer<never, never, HttpEdge> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      yield* Effect.addFinalizer(() =>
        Effect.andThen(
          Effect.sync(() => edge.enter('draining')),
          Effect.sleep(delay),
        ),
      )
    }),
  )
