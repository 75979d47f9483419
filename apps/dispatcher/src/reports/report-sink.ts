/**
 * Appends delivery reports and inbound messages to `hub.operator-reports.v1`, and only then
 * confirms them to the operator. So each one reaches the shard of its recipient, and none is lost.
 * Raw answers to submits follow without a confirmation.
 * Source: docs/security.md, Retention.
 */
import { recipientHash } from '@hub/domain'
import {
  deliveryReportRecord,
  EventLog,
  inboundMessageRecord,
  kafkaCrashPoint,
  NO_MESSAGE,
  type TopicNames,
} from '@hub/kafka'
import { type OperatorReport, ReportsNotStored, type ReportSink } from '@hub/operator'
import { inboundContext, type PayloadEncryption, reportContext } from '@hub/store'
import { Clock, Effect, Redacted, type Scope } from 'effect'
import { encodeInbound, truncateRaw } from '../payload/report-payload.ts'
import type { Metrics } from '../metrics.ts'
import { makeReportKeys } from '../payload/report-keys.ts'
import { DispatcherStore } from '../store/store.port.ts'
import { makeAnswerBuffer } from './answer-buffer.ts'

interface ReportSinkOptions {
  readonly topics: TopicNames
  readonly hashSecret: Redacted.Redacted<string>
  /** The recipient hash of a message in the memory of this process, or `null`. */
  readonly recipientOf: (messageId: string) => string | null
  readonly metrics: Metrics
}

const atReportStored = kafkaCrashPoint('dispatcher.report-stored')
const atInboundStored = kafkaCrashPoint('dispatcher.inbound-stored')

const notTaken = (error: { readonly _tag: string }) => new ReportsNotStored({ detail: error._tag })

export const makeReportSink = (
  options: ReportSinkOptions,
): Effect.Effect<
  ReportSink['Service'],
  never,
  EventLog | DispatcherStore | Scope.Scope | PayloadEncryption
> =>
  Effect.gen(function* () {
    const log = yield* EventLog
    const store = yield* DispatcherStore
    const key = yield* makeReportKeys
    const keepAnswers = yield* makeAnswerBuffer({
      topics: options.topics,
      log,
      keys: key,
      onDropped: options.metrics.answersDropped,
    })
    const hashOf = (number: string) => recipientHash(Redacted.value(options.hashSecret), number)

    const localRecipient = ({ recipient, reference, to }: OperatorReport): string | null =>
      recipient ??
      (to === null ? null : hashOf(to)) ??
      (reference === null ? null : options.recipientOf(reference))

    return {
      keepAnswers: (answers) =>
        keepAnswers(
          answers.map((answer) =>
            answer.reference === null
              ? {
                  operator: answer.operator,
                  reference: NO_MESSAGE,
                  recipient: hashOf(answer.to),
                  raw: answer.raw,
                }
              : answer,
          ),
        ),
      store: Effect.fnUntraced(function* (reports) {
        const receivedAt = yield* Clock.currentTimeMillis
        const local = reports.map(localRecipient)
        const others = reports.filter((_, i) => local[i] === null)
        const found = others.length === 0 ? [] : yield* store.recipients(others)
        const recipients = new Map(others.map((report, i) => [report, found[i] ?? null]))
        const keyOf = reports.some(({ raw }) => raw !== null) ? yield* key : null
        const records = reports.flatMap((report, i) => {
          const recipient = local[i] ?? recipients.get(report) ?? null
          if (recipient === null) return []
          const { raw } = report
          const payloadKey = raw === null ? undefined : keyOf?.(recipient)
          const encrypted =
            payloadKey === undefined || raw === null
              ? { rawKey: null, rawCiphertext: null }
              : {
                  rawKey: payloadKey.id,
                  rawCiphertext: payloadKey.encrypt(reportContext(report), truncateRaw(raw)),
                }
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
              ...encrypted,
            }),
          ]
        })
        // The hub has never had such messages. A refused operator would only send them again.
        const unknown = reports.length - records.length
        if (unknown > 0) options.metrics.unknownReports(unknown)
        if (records.length > 0) yield* atReportStored(log.append(records))
      }, Effect.mapError(notTaken)),

      storeInbound: Effect.fnUntraced(function* (messages) {
        if (messages.length === 0) return
        const receivedAt = yield* Clock.currentTimeMillis
        const keyOf = yield* key
        const records = messages.map((message) => {
          const recipient = hashOf(message.from)
          const payloadKey = keyOf(recipient)
          return inboundMessageRecord(options.topics, {
            type: 'InboundMessageReceived',
            operator: message.operator,
            operatorId: message.operatorId,
            recipient,
            serviceAddress: message.serviceAddress,
            receivedAt,
            payloadKey: payloadKey.id,
            ciphertext: payloadKey.encrypt(inboundContext(message), encodeInbound(message)),
          })
        })
        yield* atInboundStored(log.append(records))
      }, Effect.mapError(notTaken)),
    }
  })
