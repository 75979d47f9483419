/** What is the same for all answers, and whether the process is about to end. */
import { Context, Layer } from 'effect'

export class HttpEdge extends Context.Service<
  HttpEdge,
  {
    /** Where errors are documented, without the code. */
    readonly docBase: string
    /** True from SIGTERM on: the process is not ready, and answers ask clients to open another connection. */
    readonly draining: () => boolean
    readonly beginDraining: () => void
  }
>()('@hub/command-api/HttpEdge') {
  /** `baseUrl`: the public address of the hub. */
  static readonly layer = (baseUrl: string): Layer.Layer<HttpEdge> =>
    Layer.sync(HttpEdge, () => {
      let draining = false
      return {
        docBase: `${baseUrl.replace(/\/+$/u, '')}/docs/errors`,
        draining: () => draining,
        beginDraining: () => {
          draining = true
        },
      }
    })
}
