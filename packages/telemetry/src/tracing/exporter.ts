/**
 * Ended spans on their way to an OTLP/HTTP receiver. The queue is bounded and there is one request at a time: a receiver that is slow,
 * hangs or is away costs spans, which are counted, and nothing else. (The library's exporter begins a further
 * request whenever its buffer is full, whether or not the earlier ones were answered, and drops a minute of spans after one failure.)
 */
import { Data, Duration, Effect, Latch, Metric, type Scope, Semaphore } from 'effect'
import type { OtlpResource, OtlpTracer } from 'effect/observability'
import packageJson from '../../package.json' with { type: 'json' }

type OtlpSpan = OtlpTracer.ScopeSpan['spans'][number]

/** Spans that wait: some seconds of a thousand sampled spans a second, and about 8 MB. */
const QUEUE_SPANS = 8192
/** Spans of one request, about 500 kB of JSON. */
const BATCH_SPANS = 512
/** How long a first span waits for company. */
const EVERY = Duration.seconds(1)
const REQUEST_DEADLINE = Duration.seconds(5)
/** After a failure, doubled up to the longest. */
const PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
/** For what is left when the process ends: it has ten seconds for everything. */
const FLUSH_WITHIN = Duration.seconds(2)

/** How far the monotonic clock may have come away from the wall's, ms, before spans are told by the latter again. */
const CLOCK_DRIFT_MS = 50

let origin = performance.timeOrigin
/** Milliseconds since the epoch with fractions: the wall's clock, but even between two readings. */
export const wallClock = (): number => origin + performance.now()
/** Follows the wall's clock where it was set. */
export const syncClock = (): void => {
  if (Math.abs(Date.now() - wallClock()) > CLOCK_DRIFT_MS) origin = Date.now() - performance.now()
}

const exported = Metric.counter('hub_trace_spans_exported_total', {
  description: 'Spans that the OTLP receiver has taken.',
  incremental: true,
})
const dropped = Metric.counter('hub_trace_spans_dropped_total', {
  description:
    'Spans dropped, by reason: the queue was full (queue_full), or the receiver refused them (refused).',
  incremental: true,
})

/** The receiver did not take a request. `retry`: it may take the same one later. */
class NotExported extends Data.TaggedError('NotExported')<{
  readonly reason: string
  readonly retry: boolean
}> {}

export interface Exporter {
  /** `span` is only called where there is room. */
  readonly push: (span: () => OtlpSpan) => void
}

export const makeExporter: (options: {
  readonly url: string
  readonly resource: OtlpResource.Resource
}) => Effect.Effect<Exporter, never, Scope.Scope> = Effect.fnUntraced(function* ({ resource, url }) {
  const queue: Array<OtlpSpan> = []
  const awake = yield* Latch.make(false)
  const turn = yield* Semaphore.make(1)
  const context = yield* Effect.context<never>()
  const full = Metric.withAttributes(dropped, { reason: 'queue_full' })
  const refused = Metric.withAttributes(dropped, { reason: 'refused' })
  let failing = false
  let pauseMs = PAUSE_MS

  const post = (spans: ReadonlyArray<OtlpSpan>): Effect.Effect<void, NotExported> =>
    Effect.tryPromise({
      try: async (signal) => {
        const data: OtlpTracer.TraceData = {
          resourceSpans: [
            {
              resource,
              scopeSpans: [
                { scope: { name: '@hub/telemetry', version: packageJson.version }, spans: [...spans] },
              ],
            },
          ],
        }
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(data),
          redirect: 'manual',
          signal,
        })
        await response.body?.cancel()
        return response.status
      },
      catch: () => new NotExported({ reason: 'not reached', retry: true }),
    }).pipe(
      Effect.timeoutOrElse({
        duration: REQUEST_DEADLINE,
        orElse: () => Effect.fail(new NotExported({ reason: 'timeout', retry: true })),
      }),
      Effect.flatMap((status) =>
        status >= 200 && status < 300
          ? Effect.void
          : Effect.fail(
              new NotExported({
                reason: `status ${status}`,
                // Source: OTLP specification, Retryable Response Codes.
                retry: status === 429 || status === 502 || status === 503 || status === 504,
              }),
            ),
      ),
    )

  /** Spans stay in the queue until they are with the receiver. */
  const exportSome = turn.withPermits(1)(
    Effect.suspend(() => {
      const spans = queue.slice(0, BATCH_SPANS)
      if (spans.length === 0) return Effect.void
      return post(spans).pipe(
        Effect.catch((error) =>
          error.retry
            ? Effect.fail(error)
            : Effect.andThen(
                Metric.update(refused, spans.length),
                Effect.as(warn(error), 'refused' as const),
              ),
        ),
        Effect.tap((outcome) => {
          queue.splice(0, spans.length)
          pauseMs = PAUSE_MS
          if (outcome === 'refused') return Effect.void
          failing = false
          return Metric.update(exported, spans.length)
        }),
      )
    }),
  )

  /** Once for each time that it begins to fail. */
  const warn = ({ reason }: NotExported) => {
    if (failing) return Effect.void
    failing = true
    return Effect.logWarning('spans are not exported').pipe(Effect.annotateLogs({ reason }))
  }

  const loop = Effect.gen(function* () {
    yield* awake.await
    if (queue.length < BATCH_SPANS) yield* Effect.sleep(EVERY)
    syncClock()
    yield* exportSome.pipe(
      Effect.catch((error) => {
        const pause = pauseMs
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
        return Effect.andThen(warn(error), Effect.sleep(pause))
      }),
    )
    if (queue.length === 0) awake.closeUnsafe()
  }).pipe(
    Effect.catchDefect((defect) =>
      Effect.andThen(Effect.logError('the exporter of spans failed', defect), Effect.sleep(PAUSE_MS)),
    ),
  )

  yield* Effect.forkScoped(Effect.forever(loop))
  // Added last, so it runs before the loop is interrupted.
  yield* Effect.addFinalizer(() =>
    Effect.whileLoop({ while: () => queue.length > 0, body: () => exportSome, step: () => {} }).pipe(
      Effect.ignore,
      Effect.timeoutOption(FLUSH_WITHIN),
    ),
  )

  return {
    push: (span) => {
      if (queue.length >= QUEUE_SPANS) {
        full.updateUnsafe(1, context)
        return
      }
      queue.push(span())
      awake.openUnsafe()
    },
  }
})
