import { settings } from '@hub/config'
import { Effect } from 'effect'

/** Where traces go and how many there are. */
export interface TracingSettings {
  /** The full address that spans are posted to. */
  readonly url: string
  /** Share of the requests without a `traceparent` that are traced, 0 to 1. */
  readonly ratio: number
}

/** A base address gets the path that OTLP/HTTP names. Source: OpenTelemetry protocol exporter, Endpoint URLs for OTLP/HTTP. */
const tracesUrl = (base: string): string => {
  const url = new URL(base)
  const path = url.pathname.replace(/\/$/u, '')
  url.pathname = path.endsWith('/v1/traces') ? path : `${path}/v1/traces`
  return url.href
}

/** `null` where there are no traces. */
export const tracingConfig = Effect.gen(function* () {
  const base = yield* settings.otlpUrl.config
  const ratio = yield* settings.traceRatio.config
  return base === null ? null : ({ url: tracesUrl(base), ratio } satisfies TracingSettings)
})
