/**
 * The traces of a poll: of its records, those that carry a sampled `traceparent`, which are few or none. Their spans are told when the
 * transaction is committed; the events that it records follow from them.
 */
import type { IncomingRecord } from '@hub/kafka'
import { type Span, traceparentOf, type TracingShape } from '@hub/telemetry'
import type { JournalEntry } from '../messages/fold.ts'

/** A sampled record about a message. */
export interface TracedRecord {
  readonly record: IncomingRecord
  readonly messageId: string
}

export interface PollTraces {
  /** By event, the `traceparent` that goes with it to `hub.webhooks.v1`. */
  readonly ofEvents: (entries: ReadonlyArray<JournalEntry>) => ReadonlyMap<string, string>
  /** The transaction is committed. */
  readonly applied: () => void
}

const NOTHING: ReadonlyMap<string, string> = new Map()
export const UNTRACED: PollTraces = { ofEvents: () => NOTHING, applied: () => {} }

/** Source of names and attributes: OpenTelemetry, messaging spans. */
export const tracePoll = (
  tracing: TracingShape,
  group: string,
  traced: ReadonlyArray<TracedRecord>,
): PollTraces => {
  if (!tracing.isOn || traced.length === 0) return UNTRACED
  const startedAt = tracing.now()
  const begun = traced.flatMap(({ messageId, record }) => {
    const span = tracing.continueTrace(record.traceparent)
    return span === null ? [] : [{ messageId, record, span }]
  })
  // Records of one message are in their order, so its events follow from the last one.
  const spans = new Map<string, Span>(begun.map(({ messageId, span }) => [messageId, span]))
  return {
    ofEvents: (entries) => {
      const found = new Map<string, string>()
      for (const { event } of entries) {
        const subject = (event.object as { readonly id?: string }).id
        const span = subject === undefined ? undefined : spans.get(subject)
        if (span !== undefined) found.set(event.id, traceparentOf(span))
      }
      return found
    },
    applied: () => {
      for (const { messageId, record, span } of begun) {
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
