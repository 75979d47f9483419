/**
 * Whether a process serves requests, and its graceful end. A load balancer sends requests until it sees in
 * `/readyz` that the process is not ready. So the process reports that, serves for a while, and only then closes
 * its listener.
 */
import { Readiness } from '@hub/telemetry'
import { Context, Duration, Effect, Layer } from 'effect'
import { HttpServer, HttpServerRequest, type HttpServerResponse } from 'effect/http'
import { discardRest } from './early-answer.ts'

/** `draining`: requests are answered, and the listener closes their connections. */
type State = 'starting' | 'serving' | 'draining'

export class Serving extends Context.Service<
  Serving,
  {
    readonly state: () => State
    readonly enter: (next: 'serving' | 'draining') => void
    /** Resolves at the start of `draining`. */
    readonly draining: Promise<void>
  }
>()('@hub/http-server/Serving') {
  static readonly layer: Layer.Layer<Serving> = Layer.sync(Serving, () => {
    let state: State = 'starting'
    const draining = Promise.withResolvers<void>()
    return {
      state: () => state,
      enter: (next) => {
        state = next
        if (next === 'draining') draining.resolve()
      },
      draining: draining.promise,
    }
  })
}

/** Adds the readiness check `serving`: from the start of the listener until the end begins. */
export const addServingCheck = Effect.gen(function* () {
  const readiness = yield* Readiness
  const serving = yield* Serving
  yield* readiness.add(
    'serving',
    Effect.sync(() => serving.state() === 'serving'),
  )
})

/** Serves an app until the scope closes. Then the requests in progress are answered. */
export const serve = <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.gen(function* () {
    const serving = yield* Serving
    yield* HttpServer.serveEffect(
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
        Effect.flatMap(app, (response) => discardRest(request, response)),
      ),
    )
    serving.enter('serving')
    yield* Effect.logInfo('http: accepting requests')
    // Added last, so it runs first, before the listener closes.
    yield* Effect.addFinalizer(() => Effect.sync(() => serving.enter('draining')))
  })

/**
 * When the scope closes, enters `draining` and delays the finalizers of all layers below it by `delay`. The
 * listener closes the connection of each answer meanwhile, so that few connections are left when it closes. List
 * it above the listener.
 */
export const gracefulShutdown = (delay: Duration.Duration): Layer.Layer<never, never, Serving> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const serving = yield* Serving
      yield* Effect.addFinalizer(() =>
        Effect.andThen(
          Effect.sync(() => serving.enter('draining')),
          Effect.sleep(delay),
        ),
      )
    }),
  )
