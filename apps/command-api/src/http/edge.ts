/** What all requests share: the documentation URL, tracing and the log of responses. */
import { Tracing } from '@hub/telemetry'
import { Context, Effect, Layer } from 'effect'
import { makeResponseLog } from './response-log.ts'

interface HttpEdgeOptions {
  /** The public address of the hub. */
  readonly baseUrl: string
  /** The share of the 2xx responses that are logged, from 0 to 1. */
  readonly loggedShare?: number
}

export class HttpEdge extends Context.Service<HttpEdge>()('@hub/command-api/HttpEdge', {
  make: Effect.fnUntraced(function* ({ baseUrl, loggedShare = 1 }: HttpEdgeOptions) {
    const tracing = yield* Tracing
    return {
      /** Base URL of the error documentation; the error code follows as fragment. */
      docBase: `${baseUrl.replace(/\/+$/u, '')}/docs/errors`,
      tracing,
      log: makeResponseLog(loggedShare),
    }
  }),
}) {
  static readonly layer = (options: HttpEdgeOptions) => Layer.effect(this, this.make(options))
}
