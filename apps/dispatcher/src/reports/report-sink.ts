/**
 * Where operators' reports and recipients' messages go: `hub.operator-reports.v1`, in the partition of their recipient, and only then
 * is the operator told that they were taken. So they survive every process, and reach the shard whoever received them.
 *
 * Numbers, texts and the operator's own words leave this process sealed. Source: architecture, Personal data; specification,
 * Retention.
 */
import { recipientHash } from '@hub/domain'
import { deliveryReportRecord, EventLog, inboundMessageRecord, type TopicNames } from '@hub/kafka'
import { type OperatorReport, ReportsNotStored, type ReportSink } from '@hub/operator'
import type { PayloadEncryption } from '@hub/store'
import { Clock, Effect, Redacted, type Scope } from 'effect'
import { encodeInbound, inboundSeal, reportSeal, withinLimit } from '../inbound/payload.ts'
import { KnownMessages } from '../lookup/known-messages.port.ts'
import type { Metrics } from '../metrics.ts'
import { makeReportKey } from './report-keys.ts'

export interface ReportSinkOptions {
  readonly topics: TopicNames
  /** The deployment's secret behind recipient hashes. */
  readonly hashSecret: Redacted.Redacted<string>
  /** The recipient of a message in this process's memory, or `null`. */
  readonly recipientOf: (messageId: string) => string | null
  readonly metrics: Metrics
}

const notTaken = (error: { readonly _tag: string }) => new ReportsNotStored({ detail: error._tag })

export const makeReportSink = (
  options: ReportSinkOptions,
): Effect.Effect<ReportSink['Service'], never, EventLog | KnownMessages | Scope.Scope | PayloadEncryption> =>
  Effect.gen(function* () {
    const log = yield* EventLog
    const known = yield* KnownMessages
    const key = yield* makeReportKey
    const hashOf = (number: string) => recipientHash(Redacted.value(options.hashSecret), number)

    const recipientHere = ({ recipient, reference, to }: OperatorReport): string | null =>
      recipient ??
      (to === null ? null : hashOf(to)) ??
      (reference === null ? null : options.recipientOf(reference))

    return {
      store: Effect.fnUntraced(function* (reports) {
        const receivedAt = yield* Clock.currentTimeMillis
        const here = reports.map(recipientHere)
        const elsewhere = reports.filter((_, i) => here[i] === null)
        const found = elsewhere.length === 0 ? [] : yield* known.recipients(elsewhere)
        const recipients = new Map(elsewhere.map((report, i) => [report, found[i] ?? null]))
        const keyOf = reports.some(({ raw }) => raw !== null) ? yield* key : null
        const records = reports.flatMap((report, i) => {
          const recipient = here[i] ?? recipients.get(report) ?? null
          if (recipient === null) return []
          const { raw } = report
          const sealingKey = raw === null ? undefined : keyOf?.(recipient)
          const sealed =
            sealingKey === undefined || raw === null
              ? { rawKey: null, rawSealed: null }
              : { rawKey: sealingKey.id, rawSealed: sealingKey.encrypt(reportSeal(report), withinLimit(raw)) }
          return [
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
              ...sealed,
            }),
          ]
        })
        // Saying no would only bring them again: the hub has never had such messages.
        const nobodys = reports.length - records.length
        if (nobodys > 0) options.metrics.unknownReports(nobodys)
        if (records.length > 0) yield* log.append(records)
      }, Effect.mapError(notTaken)),

      storeInbound: Effect.fnUntraced(function* (messages) {
        if (messages.length === 0) return
        const receivedAt = yield* Clock.currentTimeMillis
        const keyOf = yield* key
        yield* log.append(
          messages.map((message) => {
            const recipient = hashOf(message.from)
            const sealingKey = keyOf(recipient)
            return inboundMessageRecord(options.topics, {
              type: 'InboundMessageReceived',
              operator: message.operator,
              operatorId: message.operatorId,
              recipient,
              serviceAddress: message.serviceAddress,
              receivedAt,
              sealingKey: sealingKey.id,
              sealed: sealingKey.encrypt(inboundSeal(message), encodeInbound(message)),
            })
          }),
        )
      }, Effect.mapError(notTaken)),
    }
  })
