/**
 * Traces, made by hand: a span is recorded when it has ended, with its times. There is no fiber-wide tracer, since where it counts a
 * fiber has many messages at once, and a message has many fibers. A message that is not sampled has no span and no
 * `traceparent`, so that whoever meets it further on looks at one field and goes on.
 *
 * The first process decides (head sampling): a caller's `traceparent` with the sampled flag is followed, one without it is obeyed,
 * and of requests without any a share is sampled. Whoever comes later follows.
 */
import { OtlpResource } from 'effect/observability'
import { Context, Effect, Layer } from 'effect'
import { hostname } from 'node:os'
import packageJson from '../../package.json' with { type: 'json' }
import { childSpan, readTraceparent, type RemoteParent, rootSpan, type Span } from './context.ts'
import { makeExporter, syncClock, wallClock } from './exporter.ts'
import { tracingConfig, type TracingSettings } from './settings.ts'

/** By OpenTelemetry's `SpanKind`. */
const KINDS = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const

/**
 * Names and values by OpenTelemetry's semantic conventions where they have one, else under `hub.`. Never a number, a text, a
 * variable, a key, or a URL that may hold a secret: ids, classes, codes, topics and templates of paths only.
 */
export type Attributes = Readonly<Record<string, string | number | boolean>>

/** What is known of a span when it has ended. Times in milliseconds since the epoch, with fractions (`Tracing.now`). */
export interface EndedSpan {
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly startedAt: number
  /** Absent: now. */
  readonly endedAt?: number
  readonly attributes: Attributes
  /** A code, where it failed: `error.type`. */
  readonly error?: string | null
  /** `traceparent`s of other spans that it is about as well: the rest of a batch. */
  readonly links?: ReadonlyArray<string>
}

export interface TracingShape {
  readonly isOn: boolean
  /** The span of a request from outside, with what its `traceparent` says; `null` where it is not sampled. */
  readonly startRequest: (parent: RemoteParent | null) => Span | null
  /** The next span of what another process has sampled; `null` where it has not. */
  readonly continueTrace: (traceparent: string | null | undefined) => Span | null
  /** A span within another one. */
  readonly childOf: (parent: Pick<Span, 'traceId' | 'spanId'>) => Span
  /** Milliseconds since the epoch, with fractions. */
  readonly now: () => number
  /** Hands a span over to be exported. Never waits and never fails: where the queue is full it is dropped, and counted. */
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

const linkOf = (traceparent: string) => {
  const to = readTraceparent(traceparent)
  if (to === null) return []
  return [{ traceId: to.traceId, spanId: to.spanId, attributes: [], droppedAttributesCount: 0 }]
}

const otlpSpan = (span: Span, ended: EndedSpan) => {
  const { attributes, endedAt = wallClock(), error = null, kind, links = [], name, startedAt } = ended
  const all = error === null ? attributes : { ...attributes, 'error.type': error }
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentId ?? undefined,
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startedAt),
    endTimeUnixNano: nanoseconds(Math.max(startedAt, endedAt)),
    attributes: OtlpResource.entriesToAttributes(Object.entries(all)),
    droppedAttributesCount: 0,
    events: [],
    droppedEventsCount: 0,
    // 2 is an error; whether anything else was a success is for whoever reads to say (0, unset).
    status: { code: (error === null ? 0 : 2) as 0 | 2 },
    links: links.flatMap(linkOf),
    droppedLinksCount: 0,
  }
}

const make = Effect.fnUntraced(function* (app: string, settings: TracingSettings) {
  const exporter = yield* makeExporter({
    url: settings.url,
    resource: OtlpResource.make({
      serviceName: app,
      serviceVersion: packageJson.version,
      attributes: {
        'service.namespace': 'hub',
        'service.instance.id': `${hostname()}-${process.pid}`,
        'process.pid': process.pid,
      },
    }),
  })
  syncClock()
  const { ratio } = settings
  return {
    isOn: true,
    startRequest: (parent) => {
      if (parent !== null) return parent.sampled ? childSpan(parent) : null
      return Math.random() < ratio ? rootSpan() : null
    },
    continueTrace: (traceparent) => {
      // Nearly all of them: not worth a regular expression.
      if (traceparent === null || traceparent === undefined) return null
      const parent = readTraceparent(traceparent)
      return parent?.sampled === true ? childSpan(parent) : null
    },
    childOf: childSpan,
    now: wallClock,
    record: (span, ended) => exporter.push(() => otlpSpan(span, ended)),
  } satisfies TracingShape
})

/** Traces are off where nothing else is provided. */
export const Tracing = Context.Reference<TracingShape>('@hub/telemetry/Tracing', { defaultValue: () => off })

/**
 * The traces of an app: on when `HUB_OTLP_URL` is set. Whatever becomes of the receiver, the app goes on.
 */
export const tracingLayer = (app: string) =>
  Layer.effect(
    Tracing,
    Effect.gen(function* () {
      const settings = yield* tracingConfig
      return settings === null ? off : yield* make(app, settings)
    }),
  )
