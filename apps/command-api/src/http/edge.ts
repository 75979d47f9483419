/** State that all requests share: the lifecycle, the documentation URL and tracing. */
import { Tracing } from '@hub/telemetry'
import { Context, Effect, Layer } from 'effect'

/** `draining`: requests are answered, and the listener closes their connections. */
type EdgeState = 'starting' | 'serving' | 'draining'

interface HttpEdgeOptions {
  /** The public address of the hub. */
  readonly baseUrl: string
  /** The share of the 2xx responses that are logged, from 0 to 1. */
  readonly loggedShare?: number
}

export class HttpEdge extends Context.Service<HttpEdge>()('@hub/command-api/HttpEdge', {
  make: Effect.fnUntraced(function* ({ baseUrl, loggedShare = 1 }: HttpEdgeOptions) {
    const tracing = yield* Tracing
    let state: EdgeState = 'starting'
    const listeners: Array<() => void> = []
    return {
      /** Base URL of the error documentation; the error code follows as fragment. */
      docBase: `${baseUrl.replace(/\/+$/u, '')}/docs/errors`,
      /** `serving` from the start of the listener until SIGTERM: only then the process is ready. */
      state: () => state,
      enter: (next: 'serving' | 'draining'): void => {
        state = next
        if (next === 'draining') for (const listener of listeners.splice(0)) listener()
      },
      /** Adds a listener that is called once, at the start of `draining`. */
      onDraining: (listener: () => void) => void listeners.push(listener),
      tracing,
      loggedShare,
    }
  }),
}) {
  static readonly layer = (options: HttpEdgeOptions) => Layer.effect(this, this.make(options))
}
