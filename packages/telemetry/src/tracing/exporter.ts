/**
 * Exports ended spans to an OTLP/HTTP receiver. The queue is bounded and there is one request at a
 * time, so a slow receiver costs only dropped spans, which are counted. (The library's exporter
 * requests whenever its buffer is full, and drops a minute of spans after one failure.)
 */
import { counter, labelSets } from '../metric-kinds.ts'
import { Data, Duration, Effect, Latch, type Scope, Semaphore } from 'effect'
import type { OtlpResource, OtlpTracer } from 'effect/observability'
import packageJson from '../../package.json' with { type: 'json' }

type OtlpSpan = OtlpTracer.ScopeSpan['spans'][number]

/** The most queued spans: some seconds at a thousand sampled spans a second, and about 8 MB. */
const QUEUE_SPANS = 8192
/** The most spans of one request: about 500 kB of JSON. */
const BATCH_SPANS = 512
/** The longest wait for a full batch. */
const EXPORT_INTERVAL = Duration.seconds(1)
/** The pause after a failure. It doubles with each further failure, up to the maximum. */
const PAUSE_MS = 1000
const MAX_PAUSE_MS = 30_000
/** Time limit for the export of the remaining spans at shutdown, which has ten seconds in all. */
const FLUSH_TIMEOUT = Duration.seconds(2)

/** The largest accepted difference between the monotonic clock and the wall clock, ms. */
const CLOCK_DRIFT_MS = 50

let origin = performance.timeOrigin
/** Milliseconds since the epoch with fractions, monotonic between two calls of `syncClock`. */
export const wallClock = (): number => origin + performance.now()
/** Adjusts `wallClock` after the wall clock was set. */
export const syncClock = (): void => {
  if (Math.abs(Date.now() - wallClock()) > CLOCK_DRIFT_MS) origin = Date.now() - performance.now()
}

const exported = counter('hub_trace_spans_exported_total', 'Spans that the OTLP receiver has accepted.')
const dropped = counter(
  'hub_trace_spans_dropped_total',
  'Spans dropped, by reason: the queue was full (queue_full), or the receiver refused them (refused).',
  labelSets({ reason: ['queue_full', 'refused'] }),
)

/** The receiver did not accept a request. `retry`: a retry may succeed. */
class NotExported extends Data.TaggedError('NotExported')<{
  readonly reason: string
  readonly retry: boolean
}> {}

interface Exporter {
  /** Queues a span or counts it as dropped. `span` is called only if there is room. */
  readonly push: (span: () => OtlpSpan) => void
}

export const makeExporter: (options: {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** How long a request waits for its answer. */
  readonly timeoutMs: number
  readonly resource: OtlpResource.Resource
}) => Effect.Effect<Exporter, never, Scope.Scope> = Effect.fnUntraced(function* ({
  headers,
  resource,
  timeoutMs,
  url,
}) {
  const queue: Array<OtlpSpan> = []
  const hasSpans = yield* Latch.make(false)
  const requestLock = yield* Semaphore.make(1)
  let isFailing = false
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
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(data),
          redirect: 'manual',
          signal,
        })
        await response.body?.cancel()
        return response.status
      },
      catch: () => new NotExported({ reason: 'not reachable', retry: true }),
    }).pipe(
      Effect.timeoutOrElse({
        duration: timeoutMs,
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

  /** Exports one batch. Spans stay in the queue until the receiver has accepted or refused them. */
  const exportBatch = requestLock.withPermits(1)(
    Effect.suspend(() => {
      const spans = queue.slice(0, BATCH_SPANS)
      if (spans.length === 0) return Effect.void
      return post(spans).pipe(
        Effect.catch((error) =>
          error.retry
            ? Effect.fail(error)
            : Effect.suspend(() => {
                dropped.add({ reason: 'refused' }, spans.length)
                return Effect.as(warn(error), 'refused' as const)
              }),
        ),
        Effect.map((outcome) => {
          queue.splice(0, spans.length)
          pauseMs = PAUSE_MS
          if (outcome === 'refused') return
          isFailing = false
          exported.add(spans.length)
        }),
      )
    }),
  )

  /** Logs only the first failure of a series. */
  const warn = ({ reason }: NotExported) => {
    if (isFailing) return Effect.void
    isFailing = true
    return Effect.logWarning('span export failed: it is retried, and further failures are not logged').pipe(
      Effect.annotateLogs({ reason }),
    )
  }

  const loop = Effect.gen(function* () {
    yield* hasSpans.await
    if (queue.length < BATCH_SPANS) yield* Effect.sleep(EXPORT_INTERVAL)
    syncClock()
    yield* exportBatch.pipe(
      Effect.catch((error) => {
        const pause = pauseMs
        pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)
        return Effect.andThen(warn(error), Effect.sleep(pause))
      }),
    )
    if (queue.length === 0) hasSpans.closeUnsafe()
  }).pipe(
    Effect.catchDefect((defect) =>
      Effect.andThen(
        Effect.logError('span export failed with a defect: it continues', defect),
        Effect.sleep(PAUSE_MS),
      ),
    ),
  )

  yield* Effect.forkScoped(Effect.forever(loop))
  // Finalizers run in reverse order, so this one runs before the loop is interrupted.
  yield* Effect.addFinalizer(() =>
    Effect.whileLoop({ while: () => queue.length > 0, body: () => exportBatch, step: () => {} }).pipe(
      Effect.ignore,
      Effect.timeoutOption(FLUSH_TIMEOUT),
    ),
  )

  return {
    push: (span) => {
      if (queue.length >= QUEUE_SPANS) {
        dropped.add({ reason: 'queue_full' })
        return
      }
      queue.push(span())
      hasSpans.openUnsafe()
    },
  }
})
