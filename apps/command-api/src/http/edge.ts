/**
 * State that all requests of the process share: its lifecycle, the documentation URL and tracing.
 */
import { Tracing, type TracingShape } from '@hub/telemetry'
import { Context, Effect, Layer } from 'effect'

/** `draining`: requests in progress are answered, with `Connection: close`. */
type EdgeState = 'starting' | 'serving' | 'draining'

export class HttpEdge extends Context.Service<
  HttpEdge,
  {
    /** Base URL of the error documentation; the error code follows as fragment. */
    readonly docBase: string
    /**
     * `serving` from the start of the listener until SIGTERM. The process is ready only in this
     * state.
     */
    readonly state: () => EdgeState
    readonly enter: (state: 'serving' | 'draining') => void
    /** Adds a listener that is called once, at the start of `draining`. */
    readonly onDraining: (listener: () => void) => void
    readonly tracing: TracingShape
  }
>()('@hub/command-api/HttpEdge') {
  /** `baseUrl`: the public address of the hub. */
  static readonly layer = (baseUrl: string): Layer.Layer<HttpEdge> =>
    Layer.effect(
      HttpEdge,
      Effect.gen(function* () {
        const tracing = yield* Tracing
        let state: EdgeState = 'starting'
        const listeners: Array<() => void> = []
        return {
          docBase: `${baseUrl.replace(/\/+$/u, '')}/docs/errors`,
          state: () => state,
          enter: (next) => {
            state = next
            if (next === 'draining') for (const listener of listeners.splice(0)) listener()
          },
          onDraining: (listener) => void listeners.push(listener),
          tracing,
        }
      }),
    )
}
