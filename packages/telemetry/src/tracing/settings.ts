/** The tracing settings of a process. */
import { settings } from '@hub/config'
import { Effect } from 'effect'

export interface TracingSettings {
  /** The complete URL for spans. */
  readonly url: string
  /** The share of requests without a `traceparent` that are sampled, 0 to 1. */
  readonly ratio: number
}

/** Adds the path of OTLP/HTTP to a base URL. */
const tracesUrl = (base: string): string => {
  const url = new URL(base)
  const path = url.pathname.replace(/\/$/u, '')
  url.pathname = path.endsWith('/v1/traces') ? path : `${path}/v1/traces`
  return url.href
}

/** `null` if tracing is off. */
export const tracingConfig = Effect.gen(function* () {
  const base = yield* settings.otlpUrl.config
  const ratio = yield* settings.traceRatio.config
  return base === null ? null : ({ url: tracesUrl(base), ratio } satisfies TracingSettings)
})
