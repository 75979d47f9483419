import { EventLog, type OutgoingRecord } from '@hub/kafka'
import { Tracing } from '@hub/telemetry'
import { Effect } from 'effect'

/**
 * `EventLog.append`, with a span for each trace and topic among the records. What reads them follows from the request itself,
 * whose `traceparent` they carry, whichever process publishes them in the end.
 *
 * Names and attributes: OpenTelemetry, messaging spans.
 */
export const makeTracedAppend = Effect.gen(function* () {
  const log = yield* EventLog
  const tracing = yield* Tracing
  if (!tracing.isOn) return log.append

  const tell = (records: ReadonlyArray<OutgoingRecord>, startedAt: number, error: string | null): void => {
    const traced = records.filter(({ traceparent }) => traceparent !== undefined)
    for (const some of Map.groupBy(traced, ({ topic, traceparent }) => `${topic} ${traceparent}`).values()) {
      const [{ topic, traceparent }] = some as [OutgoingRecord]
      const span = tracing.continueTrace(traceparent)
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
          'messaging.batch.message_count': some.length,
        },
        error,
      })
    }
  }

  const append: EventLog['Service']['append'] = (records, options) =>
    Effect.suspend(() => {
      const startedAt = tracing.now()
      return log.append(records, options).pipe(
        Effect.tap(() => Effect.sync(() => tell(records, startedAt, null))),
        Effect.tapError((error) => Effect.sync(() => tell(records, startedAt, error.reason))),
      )
    })
  return append
})
