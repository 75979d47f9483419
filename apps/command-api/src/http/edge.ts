/** What is the same for all answers, and whether the process is about to end. */
import { Tracing, type TracingShape } from '@hub/telemetry'
import { Context, Effect, Layer } from 'effect'

/** `draining`: what is in flight is answered, and answers ask clients to open another connection. */
export type EdgeState = 'starting' | 'serving' | 'draining'

export class HttpEdge extends Context.Service<
  HttpEdge,
  {
    /** Where errors are documented, without the code. */
    readonly docBase: string
    /** `serving` from the moment requests are taken until SIGTERM; only then is the process ready. */
    readonly state: () => EdgeState
    readonly enter: (state: 'serving' | 'draining') => void
    /** Called once, when the process begins to end. */
    readonly onDraining: (act: () => void) => void
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
        const acts: Array<() => void> = []
        return {
          docBase: `${baseUrl.replace(/\/+$/u, '')}/docs/errors`,
          state: () => state,
          enter: (next) => {
            state = next
            if (next === 'draining') for (const act of acts.splice(0)) act()
          },
          onDraining: (act) => void acts.push(act),
          tracing,
        }
      }),
    )
}
