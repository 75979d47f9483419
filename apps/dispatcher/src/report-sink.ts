/**
 * Where operators' reports go: `hub.operator-reports.v1`, in the partition of their recipient, and only then is the
 * operator told that they were taken. So a report survives every process, and reaches the shard whoever received it.
 */
import { deliveryReportRecord, EventLog, type TopicNames } from '@hub/kafka'
import { type OperatorReport, ReportsNotTaken, type ReportSink } from '@hub/operator'
import { Clock, Effect } from 'effect'
import { KnownMessages } from './known/port.ts'
import type { Metrics } from './metrics.ts'

export interface ReportSinkOptions {
  readonly topics: TopicNames
  /** The recipient of a message in this process's memory, or `null`. */
  readonly recipientOf: (messageId: string) => string | null
  readonly metrics: Metrics
}

export const makeReportSink = (
  options: ReportSinkOptions,
): Effect.Effect<ReportSink['Service'], never, EventLog | KnownMessages> =>
  Effect.gen(function* () {
    const log = yield* EventLog
    const known = yield* KnownMessages

    const recipientHere = ({ recipient, reference }: OperatorReport): string | null =>
      recipient ?? (reference === null ? null : options.recipientOf(reference))

    return {
      take: Effect.fnUntraced(
        function* (reports) {
          const receivedAt = yield* Clock.currentTimeMillis
          const here = reports.map(recipientHere)
          const elsewhere = reports.filter((_, i) => here[i] === null)
          const found = elsewhere.length === 0 ? [] : yield* known.recipients(elsewhere)
          const recipients = new Map(elsewhere.map((report, i) => [report, found[i] ?? null]))
          const records = reports.flatMap((report, i) => {
            const recipient = here[i] ?? recipients.get(report) ?? null
            return recipient === null
              ? []
              : [
                  deliveryReportRecord(options.topics, {
                    type: 'DeliveryReportReceived',
                    operator: report.operator,
                    operatorId: report.operatorId,
                    reference: report.reference,
                    recipient,
                    outcome: report.outcome,
                    reason: report.reason,
                    at: report.at,
                    receivedAt,
                    rawKey: null,
                    rawSealed: null,
                  }),
                ]
          })
          // Saying no would only bring them again: the hub has never had such messages.
          const nobodys = reports.length - records.length
          if (nobodys > 0) options.metrics.reportOfNobody(nobodys)
          if (records.length > 0) yield* log.append(records)
        },
        Effect.mapError((error) => new ReportsNotTaken({ detail: error._tag })),
      ),
      // No operator of today hands any over; one that did would tell it again.
      takeInbound: () => Effect.fail(new ReportsNotTaken({ detail: 'inbound messages are not taken yet' })),
    }
  })
