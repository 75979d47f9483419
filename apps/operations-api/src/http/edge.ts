/** The state that all requests share: whether the process serves, and how many requests are in progress. */
import { Context, Effect, Layer } from 'effect'

/** `draining`: requests in progress are answered, and streams end. */
type EdgeState = 'starting' | 'serving' | 'draining'

export class HttpEdge extends Context.Service<
  HttpEdge,
  {
    readonly state: () => EdgeState
    readonly enter: (next: 'serving' | 'draining') => void
    /** Resolves at the start of `draining`. */
    readonly draining: Promise<void>
  }
>()('@hub/operations-api/HttpEdge') {
  static readonly layer: Layer.Layer<HttpEdge> = Layer.effect(
    HttpEdge,
    Effect.sync(() => {
      let state: EdgeState = 'starting'
      const draining = Promise.withResolvers<void>()
      return {
        state: () => state,
        enter: (next) => {
          state = next
          if (next === 'draining') draining.resolve()
        },
        draining: draining.promise,
      }
    }),
  )
}
