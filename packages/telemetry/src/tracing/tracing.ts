/**
 * Tracing with explicit spans: code records a span when it has ended. A fiber-wide tracer does not
 * fit, because one fiber handles many messages, and one message passes many fibers. A message that
 * is not sampled has no `traceparent`, so later components only check one field.
 *
 * The first process decides (head sampling): by default it follows a caller's `traceparent`, and
 * samples a share of the other requests. Later processes follow that decision.
 */
import { OtlpResource } from 'effect/observability'
import { Context, Effect, Layer } from 'effect'
import { hostname } from 'node:os'
import packageJson from '../../package.json' with { type: 'json' }
import {
  childSpan,
  newTraceId,
  readTraceparent,
  type RemoteParent,
  rootSpan,
  type Span,
  type TraceHeaders,
} from './context.ts'
import { makeExporter, syncClock, wallClock } from './exporter.ts'
import { tracingConfig, type TracingSettings } from './settings.ts'

/** The values of `SpanKind` in OTLP. */
const KINDS = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const

/**
 * Names follow OpenTelemetry's semantic conventions or begin with `hub.`. Values are only ids,
 * classes, codes, topics and path templates: never personal data, a key, or a URL.
 */
type Attributes = Readonly<Record<string, string | number | boolean>>

/** The data of an ended span. Times are ms since the epoch with fractions (`Tracing.now`). */
interface EndedSpan {
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly startedAt: number
  /** Default: now. */
  readonly endedAt?: number
  readonly attributes: Attributes
  /** The code of a failure, for `error.type`. */
  readonly error?: string | null
  /** Further related spans, such as those of the other records of a batch. */
  readonly links?: ReadonlyArray<TraceHeaders>
}

export interface TracingShape {
  readonly isOn: boolean
  /** Makes the span of an external request, or `null` if it is not sampled. */
  readonly startRequest: (parent: RemoteParent | null) => Span | null
  /** Makes the next span of another process's trace, or returns `null` if it is not sampled. */
  readonly continueTrace: (traceparent: string | null | undefined, tracestate?: string | null) => Span | null
  /** Makes a child span. */
  readonly childOf: (parent: Pick<Span, 'traceId' | 'spanId' | 'tracestate'>) => Span
  /** Milliseconds since the epoch, with fractions. */
  readonly now: () => number
  /** Queues an ended span. Never waits: if the queue is full, the span is dropped. */
  readonly record: (span: Span, ended: EndedSpan) => void
}

const off: TracingShape = {
  isOn: false,
  startRequest: () => null,
  continueTrace: () => null,
  childOf: childSpan,
  now: wallClock,
  record: () => {},
}

const nanoseconds = (ms: number): string => String(BigInt(Math.round(ms * 1000)) * 1000n)

const traceStateOf = ({ tracestate }: { readonly tracestate?: string }) =>
  tracestate === undefined ? {} : { traceState: tracestate }

const linkOf = ({ traceparent, tracestate }: TraceHeaders) => {
  const to = readTraceparent(traceparent, tracestate)
  if (to === null) return []
  const { spanId, traceId } = to
  return [{ traceId, spanId, ...traceStateOf(to), attributes: [], droppedAttributesCount: 0 }]
}

const otlpSpan = (span: Span, ended: EndedSpan) => {
  const { attributes, endedAt = wallClock(), error = null, kind, links = [], name, startedAt } = ended
  const all = error === null ? attributes : { ...attributes, 'error.type': error }
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentId ?? undefined,
    ...traceStateOf(span),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startedAt),
    endTimeUnixNano: nanoseconds(Math.max(startedAt, endedAt)),
    attributes: OtlpResource.entriesToAttributes(Object.entries(all)),
    droppedAttributesCount: 0,
    events: [],
    droppedEventsCount: 0,
    // OTLP status codes: 2 is an error, 0 is unset.
    status: { code: (error === null ? 0 : 2) as 0 | 2 },
    links: links.flatMap(linkOf),
    droppedLinksCount: 0,
  }
}

const make = Effect.fnUntraced(function* (app: string, settings: TracingSettings) {
  const { attributes, headers, sampler, serviceName, timeoutMs, url } = settings
  const exporter = yield* makeExporter({
    url,
    headers,
    timeoutMs,
    resource: OtlpResource.make({
      attributes: {
        'service.name': app,
        'service.version': packageJson.version,
        'service.namespace': 'hub',
        'service.instance.id': `${hostname()}-${process.pid}`,
        'process.pid': process.pid,
        ...attributes,
        ...(serviceName === null ? {} : { 'service.name': serviceName }),
      },
    }),
  })
  syncClock()
  return {
    isOn: true,
    startRequest: (parent) => {
      const traceId = parent?.traceId ?? newTraceId()
      if (!sampler(traceId, parent)) return null
      return parent === null ? rootSpan(traceId) : childSpan(parent)
    },
    continueTrace: (traceparent, tracestate) => {
      // The usual case. It avoids the regular expression.
      if (traceparent === null || traceparent === undefined) return null
      const parent = readTraceparent(traceparent, tracestate)
      return parent?.sampled === true ? childSpan(parent) : null
    },
    childOf: childSpan,
    now: wallClock,
    record: (span, ended) => exporter.push(() => otlpSpan(span, ended)),
  } satisfies TracingShape
})

/** Tracing is off by default. */
export const Tracing = Context.Reference<TracingShape>('@hub/telemetry/Tracing', { defaultValue: () => off })

/** Tracing of an app. It is on if a setting names a receiver. */
export const tracingLayer = (app: string) =>
  Layer.effect(
    Tracing,
    Effect.gen(function* () {
      const settings = yield* tracingConfig
      return settings === null ? off : yield* make(app, settings)
    }),
  )
