/** What is told of each request: two metrics, and a span where it is sampled. Never its path, which may hold anything. */
import { readTraceparent, type Span, traceparentOf, type TracingShape } from '@hub/telemetry'
import { Context, Metric } from 'effect'

/** What of a request can be told. */
export interface Observed {
  readonly method: string
  /** The path with its parameters' names, such as `/v1/messages/:id`; `null` where there is no such path. */
  readonly route: string | null
  readonly traceparent: string | undefined
}

/** Methods that are told by their name. Source: OpenTelemetry, HTTP spans, http.request.method. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])
const NO_ROUTE = 'none'

const answers = Metric.counter('hub_http_answers_total', {
  description: 'Answers, by HTTP status.',
  incremental: true,
})
const requestSeconds = Metric.histogram('hub_http_request_seconds', {
  description: 'From the headers of a request until its answer was made, by method, route and status.',
  // What is accepted takes milliseconds, the bound for all answers is 3 s, and a trial delivery may take 19 s.
  boundaries: [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 20],
})

interface Bound {
  readonly answers: Metric.Metric<number, unknown>
  readonly seconds: Metric.Metric<number, unknown>
}
/** Bound once for each combination: attributes cost a microsecond a call. Methods, routes and statuses are few. */
const bound = new Map<string, Bound>()
const boundFor = (method: string, route: string, status: number): Bound => {
  const key = `${method} ${route} ${status}`
  let found = bound.get(key)
  if (found === undefined) {
    found = {
      answers: Metric.withAttributes(answers, { status: String(status) }),
      seconds: Metric.withAttributes(requestSeconds, { method, route, status: String(status) }),
    }
    bound.set(key, found)
  }
  return found
}
const context = Context.empty()

/** The span of a request that is sampled, and what becomes known of it. */
export interface Trace {
  readonly span: Span
  /** For what follows from the request. */
  readonly traceparent: string
  readonly attributes: Record<string, string | number>
}

/** Begins with a request. `trace` is `null` where it is not sampled; `ended` is called once, with its answer's status. */
export const observe = (
  tracing: TracingShape,
  { method, route, traceparent }: Observed,
  requestId: string,
) => {
  const parent = traceparent === undefined ? null : readTraceparent(traceparent)
  const span = tracing.startRequest(parent)
  const began = performance.now()
  const startedAt = tracing.now()
  const trace: Trace | null =
    span === null ? null : { span, traceparent: traceparentOf(span), attributes: {} }
  const traceId = span?.traceId ?? parent?.traceId
  const known = METHODS.has(method) ? method : '_OTHER'
  return {
    trace,
    /** For the lines of the log. A caller's trace is named although the hub does not record it. */
    annotations:
      traceId === undefined ? { request_id: requestId } : { request_id: requestId, trace_id: traceId },
    ended: (status: number): void => {
      const metrics = boundFor(known, route ?? NO_ROUTE, status)
      metrics.answers.updateUnsafe(1, context)
      metrics.seconds.updateUnsafe((performance.now() - began) / 1000, context)
      if (trace === null) return
      tracing.record(trace.span, {
        // Source: OpenTelemetry, HTTP spans, Name.
        name: route === null ? known : `${known} ${route}`,
        kind: 'server',
        startedAt,
        attributes: {
          'http.request.method': known,
          ...(route === null ? {} : { 'http.route': route }),
          'http.response.status_code': status,
          'hub.request_id': requestId,
          ...trace.attributes,
        },
        error: status >= 500 ? String(status) : null,
      })
    },
  }
}
