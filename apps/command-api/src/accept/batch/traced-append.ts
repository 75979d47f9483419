/**
 * `EventLog.append` with one span for each trace and topic among the records. Records carry the
 * `traceparent` of their request, so its trace continues in the readers, whichever process appends
 * the records. Names and attributes: OpenTelemetry, messaging spans.
 */
import { EventLog, type OutgoingRecord } from '@hub/kafka'
import { Tracing } from '@hub/telemetry'
import { Effect } from 'effect'

export const makeTracedAppend = Effect.gen(function* () {
  const log = yield* EventLog
  const tracing = yield* Tracing
  if (!tracing.isOn) return log.append

  const recordSpans = (
    records: ReadonlyArray<OutgoingRecord>,
    startedAt: number,
    error: string | null,
  ): void => {
    const traced = records.filter(({ traceparent }) => traceparent !== undefined)
    for (const group of Map.groupBy(traced, ({ topic, traceparent }) => `${topic} ${traceparent}`).values()) {
      const [{ headers, topic, traceparent }] = group as [OutgoingRecord]
      const span = tracing.continueTrace(traceparent, headers?.['tracestate'])
      if (span === null) continue
      tracing.record(span, {
        name: `send ${topic}`,
        kind: 'producer',
        startedAt,
        attributes: {
          'messaging.system': 'kafka',
          'messaging.operation.name': 'send',
          'messaging.operation.type': 'send',
          'messaging.destination.name': topic,
          'messaging.batch.message_count': group.length,
        },
        error,
      })
    }
  }

  const append: EventLog['Service']['append'] = (records, options) =>
    Effect.suspend(() => {
      const startedAt = tracing.now()
      return log.append(records, options).pipe(
        Effect.tap(() => Effect.sync(() => recordSpans(records, startedAt, null))),
        Effect.tapError((error) => Effect.sync(() => recordSpans(records, startedAt, error.reason))),
      )
    })
  return append
})
