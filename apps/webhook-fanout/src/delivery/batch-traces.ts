/**
 * The traces of batches, as long as they wait for their delivery: an attempt is a span under the last traced event of its batch, which came
 * the longest way, and linked to the others. They are kept in memory only; what is tried again after a restart is in no trace.
 *
 * Names and attributes: OpenTelemetry, HTTP client spans.
 */
import { traceparentOf, type TracingShape } from '@hub/telemetry'
import type { DeliveryResult } from '@hub/webhooks'
import type { CollectedEvent } from '../batching/collector.ts'
import type { PendingBatch, Subscription } from '../subscriptions/subscription.ts'

/** Traced batches that are remembered; beyond them the oldest is forgotten. A receiver that is away for a day leaves many. */
const MOST = 10_000
/** Of one batch, which has up to a hundred events. */
const MOST_LINKS = 32

/** For `PendingBatch`. */
export const traceparentsOf = (
  events: ReadonlyArray<Pick<CollectedEvent, 'traceparent'>>,
): Pick<PendingBatch, 'traceparents'> => {
  const traceparents = events.flatMap(({ traceparent }) => (traceparent === undefined ? [] : [traceparent]))
  return traceparents.length === 0 ? {} : { traceparents }
}

/** An attempt that is traced. */
export interface AttemptTrace {
  /** For the receiver. */
  readonly traceparent: string
  readonly ended: (result: DeliveryResult) => void
}

export class BatchTraces {
  readonly #tracing: TracingShape
  readonly #waiting = new Map<string, ReadonlyArray<string>>()

  constructor(tracing: TracingShape) {
    this.#tracing = tracing
  }

  /** A batch that was just stored. */
  add({ traceparents, uuid }: PendingBatch): void {
    if (traceparents === undefined || !this.#tracing.isOn) return
    this.#waiting.set(uuid, traceparents.slice(-MOST_LINKS))
    if (this.#waiting.size <= MOST) return
    const [oldest] = this.#waiting.keys()
    if (oldest !== undefined) this.#waiting.delete(oldest)
  }

  /** It is delivered, or never will be. */
  forget(uuid: string): void {
    if (this.#waiting.size > 0) this.#waiting.delete(uuid)
  }

  /** An attempt begins; `null` where its batch is not traced. */
  begin(subscription: Subscription, batch: PendingBatch): AttemptTrace | null {
    if (this.#waiting.size === 0) return null
    const links = this.#waiting.get(batch.uuid) ?? []
    const span = this.#tracing.continueTrace(links.at(-1))
    if (span === null) return null
    const startedAt = this.#tracing.now()
    const { id, url } = subscription.record
    return {
      traceparent: traceparentOf(span),
      ended: ({ reason, responseCode }) =>
        this.#tracing.record(span, {
          name: 'POST',
          kind: 'client',
          startedAt,
          attributes: {
            'http.request.method': 'POST',
            // The host and nothing else of the URL, which may hold secrets.
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
