/** The tracing settings of a process: `HUB_OTLP_URL`, and the variables of OpenTelemetry. */
import { settings } from '@hub/config'
import { Effect, Redacted } from 'effect'
import { ratioSampler, type Sampler, samplerOf } from './sampler.ts'

export interface TracingSettings {
  /** The complete URL for spans. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly sampler: Sampler
  /** `null`: the name of the app. */
  readonly serviceName: string | null
  /** Further resource attributes. */
  readonly attributes: Readonly<Record<string, string>>
}

const PATH = '/v1/traces'

const withoutSlash = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path)

/** Adds the path of OTLP/HTTP to a base URL. */
const below = (base: string): string => {
  const url = new URL(base)
  url.pathname = `${withoutSlash(url.pathname)}${PATH}`
  return url.href
}

/** `HUB_OTLP_URL` may be the complete address. */
const hubUrl = (given: string): string => {
  const url = new URL(given)
  const path = withoutSlash(url.pathname)
  if (path.endsWith(PATH)) url.pathname = path.slice(0, -PATH.length)
  return below(url.href)
}

const tracesUrl = Effect.gen(function* () {
  const own = yield* settings.otlpUrl.config
  if (own !== null) return hubUrl(own)
  const complete = yield* settings.otelTracesEndpoint.config
  if (complete !== null) return complete
  const base = yield* settings.otelEndpoint.config
  return base === null ? null : below(base)
})

const sampler = Effect.gen(function* () {
  const name = yield* settings.otelSampler.config
  if (name === null) return ratioSampler(yield* settings.traceRatio.config, true)
  return samplerOf(name, (yield* settings.otelSamplerRatio.config) ?? 1)
})

/** `null` if tracing is off. */
export const tracingConfig = Effect.gen(function* () {
  const url = yield* tracesUrl
  if (url === null || (yield* settings.otelDisabled.config)) return null
  const headers = yield* settings.otelHeaders.config
  return {
    url,
    headers: headers === null ? {} : Redacted.value(headers),
    timeoutMs: yield* settings.otelTimeoutMs.config,
    sampler: yield* sampler,
    serviceName: yield* settings.otelServiceName.config,
    attributes: (yield* settings.otelResourceAttributes.config) ?? {},
  } satisfies TracingSettings
})
