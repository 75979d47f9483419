/** Metrics of each request, and a span for each sampled one, with the route, never the path. */
import {
  memoizeLabels,
  readTraceparent,
  type Span,
  type TraceHeaders,
  traceHeadersOf,
  type TracingShape,
} from '@hub/telemetry'
import { Context } from 'effect'
import { httpAnswers, httpRequestSeconds } from '../metrics.ts'

/** The parts of a request that metrics and traces may contain. */
export interface ObservedRequest {
  readonly method: string
  /** The path with parameter names, such as `/v1/messages/:id`; `null` for an unknown path. */
  readonly route: string | null
  readonly traceparent: string | undefined
  readonly tracestate?: string | undefined
}

/** Known methods; others are `_OTHER`. Source: OpenTelemetry, HTTP spans, http.request.method. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])
const NO_ROUTE = 'none'

const labelled = memoizeLabels()
const context = Context.empty()

/** The span of a sampled request, and attributes that operations add to it. */
export interface Trace {
  readonly span: Span
  /** For the records that the request causes. */
  readonly headers: TraceHeaders
  readonly attributes: Record<string, string | number>
}

/** Observes a request until `ended`, called once. `trace` is `null` if it is not sampled. */
export const observe = (
  tracing: TracingShape,
  { method, route, traceparent, tracestate }: ObservedRequest,
  requestId: string,
) => {
  const parent = traceparent === undefined ? null : readTraceparent(traceparent, tracestate)
  const span = tracing.startRequest(parent)
  const startedMs = performance.now()
  const startedAt = tracing.now()
  const trace: Trace | null = span === null ? null : { span, headers: traceHeadersOf(span), attributes: {} }
  const traceId = span?.traceId ?? parent?.traceId
  const methodLabel = METHODS.has(method) ? method : '_OTHER'
  return {
    trace,
    /** Annotations of log lines, with the caller's trace id even if the hub does not sample it. */
    annotations:
      traceId === undefined ? { request_id: requestId } : { request_id: requestId, trace_id: traceId },
    /** Returns the seconds since the start. */
    ended: (status: number): number => {
      const labels = { method: methodLabel, route: route ?? NO_ROUTE, status: String(status) }
      httpAnswers.add({ status: labels.status })
      const seconds = (performance.now() - startedMs) / 1000
      labelled(httpRequestSeconds, labels).updateUnsafe(seconds, context)
      if (trace === null) return seconds
      tracing.record(trace.span, {
        // Source: OpenTelemetry, HTTP spans, Name.
        name: route === null ? methodLabel : `${methodLabel} ${route}`,
        kind: 'server',
        startedAt,
        attributes: {
          'http.request.method': methodLabel,
          ...(route === null ? {} : { 'http.route': route }),
          'http.response.status_code': status,
          'hub.request_id': requestId,
          ...trace.attributes,
        },
        error: status >= 500 ? String(status) : null,
      })
      return seconds
    },
  }
}
