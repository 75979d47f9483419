/**
 * The traces of batches that wait for their delivery. An attempt is a span under the last traced
 * event of its batch, with links to the other events. Traces are kept only in memory, so attempts
 * after a restart are not traced.
 *
 * Names and attributes: OpenTelemetry, HTTP client spans.
 */
import { type TraceHeaders, traceHeadersOf, type TracingShape } from '@hub/telemetry'
import type { DeliveryResult } from '@hub/webhooks'
import type { Subscription } from '../subscriptions/subscription.ts'
import type { PendingBatch } from '../subscriptions/pending-batch.ts'

/** Traced batches in memory; above it the oldest is forgotten. */
const MAX_BATCHES = 10_000
/** Links of one span; a batch has up to a hundred events. */
const MAX_LINKS = 32

interface AttemptTrace {
  /** The headers for the receiver. */
  readonly headers: TraceHeaders
  readonly ended: (result: DeliveryResult) => void
}

export class BatchTraces {
  readonly #tracing: TracingShape
  readonly #waiting = new Map<string, ReadonlyArray<TraceHeaders>>()

  constructor(tracing: TracingShape) {
    this.#tracing = tracing
  }

  /** Adds a batch that was just stored. */
  add({ traces, uuid }: PendingBatch): void {
    if (traces === undefined || !this.#tracing.isOn) return
    this.#waiting.set(uuid, traces.slice(-MAX_LINKS))
    if (this.#waiting.size <= MAX_BATCHES) return
    const [oldest] = this.#waiting.keys()
    if (oldest !== undefined) this.#waiting.delete(oldest)
  }

  /** Removes a batch (UUID) that has ended. */
  forget(uuid: string): void {
    if (this.#waiting.size > 0) this.#waiting.delete(uuid)
  }

  /** Begins the span of an attempt; `null` if its batch is not traced. */
  begin(subscription: Subscription, batch: PendingBatch): AttemptTrace | null {
    if (this.#waiting.size === 0) return null
    const links = this.#waiting.get(batch.uuid) ?? []
    const last = links.at(-1)
    const span = this.#tracing.continueTrace(last?.traceparent, last?.tracestate)
    if (span === null) return null
    const startedAt = this.#tracing.now()
    const { id, url } = subscription.record
    return {
      headers: traceHeadersOf(span),
      ended: ({ reason, responseCode }) =>
        this.#tracing.record(span, {
          name: 'POST',
          kind: 'client',
          startedAt,
          attributes: {
            'http.request.method': 'POST',
            // Only the host of the URL: the rest may contain secrets.
            'server.address': URL.parse(url)?.hostname ?? 'unknown',
            ...(batch.attempts === 0 ? {} : { 'http.request.resend_count': batch.attempts }),
            ...(responseCode === null ? {} : { 'http.response.status_code': responseCode }),
            'hub.event_batch': batch.id,
            'hub.subscription': id,
          },
          error: reason,
          links: links.slice(0, -1),
        }),
    }
  }
}
