/**
 * The beginning of an orderly end. A load balancer learns that this process takes no more from `/readyz`, which it asks now and then; until
 * it has asked, it sends on. So the process says that it is not ready, goes on for a while as before, and only then closes its listener.
 */
import { Duration, Effect, Layer } from 'effect'
import { HttpEdge } from './edge.ts'

/**
 * Says so when the scope closes, and holds everything below for so long. What is answered meanwhile asks the client to open another
 * connection, so that few are left when the listener closes. To be listed above the listener.
 */
export const announcedShutdown = (delay: Duration.Duration): Layer.Layer<never, never, HttpEdge> =>
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
