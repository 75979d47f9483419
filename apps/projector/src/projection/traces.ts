/**
 * Traces of the records of a batch that have a sampled `traceparent`. Their spans end with the
 * commit. Events of the transaction continue these traces.
 */
import type { IncomingRecord } from '@hub/kafka'
import { type Span, type TraceHeaders, traceHeadersOf, type TracingShape } from '@hub/telemetry'
import type { JournalEntry } from '../messages/fold.ts'

/** A sampled record about a message. */
export interface TracedRecord {
  readonly record: IncomingRecord
  readonly messageId: string
}

export interface BatchTraces {
  /** The headers of each traced event's record, by event id. */
  readonly ofEvents: (entries: ReadonlyArray<JournalEntry>) => ReadonlyMap<string, TraceHeaders>
  /** Ends the spans. Call it after the commit. */
  readonly applied: () => void
}

const NONE: ReadonlyMap<string, TraceHeaders> = new Map()
export const UNTRACED: BatchTraces = { ofEvents: () => NONE, applied: () => {} }

/** Starts the spans. Source of names and attributes: OpenTelemetry, messaging spans. */
export const traceBatch = (
  tracing: TracingShape,
  group: string,
  traced: ReadonlyArray<TracedRecord>,
): BatchTraces => {
  if (!tracing.isOn || traced.length === 0) return UNTRACED
  const startedAt = tracing.now()
  const started = traced.flatMap(({ messageId, record }) => {
    const span = tracing.continueTrace(record.traceparent, record.tracestate)
    return span === null ? [] : [{ messageId, record, span }]
  })
  // The records of a message are in order, so its events continue the trace of the last one.
  const spans = new Map<string, Span>(started.map(({ messageId, span }) => [messageId, span]))
  return {
    ofEvents: (entries) => {
      const headers = new Map<string, TraceHeaders>()
      for (const { event } of entries) {
        const subject = (event.object as { readonly id?: string }).id
        const span = subject === undefined ? undefined : spans.get(subject)
        if (span !== undefined) headers.set(event.id, traceHeadersOf(span))
      }
      return headers
    },
    applied: () => {
      for (const { messageId, record, span } of started) {
        tracing.record(span, {
          name: `process ${record.topic}`,
          kind: 'consumer',
          startedAt,
          attributes: {
            'messaging.system': 'kafka',
            'messaging.operation.name': 'process',
            'messaging.operation.type': 'process',
            'messaging.destination.name': record.topic,
            'messaging.destination.partition.id': String(record.partition),
            'messaging.kafka.offset': record.offset,
            'messaging.consumer.group.name': group,
            'hub.message_id': messageId,
            'hub.fact': record.type,
          },
        })
      }
    },
  }
}
