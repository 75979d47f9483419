/** The records of Kafka about one message: from the lane, the log, and what operators sent. */
import { encodeId, type MessageFact } from '@hub/domain'
import {
  catalogueConfig,
  decodeDeliveryReportReceived,
  decodeFact,
  decodeOperatorAnswerReceived,
  type DeliveryReportReceived,
  EventLog,
  type IncomingRecord,
  NO_MESSAGE,
  type OperatorAnswerReceived,
  topicNames,
  TopicReader,
} from '@hub/kafka'
import { ReadMessages, ReadOperatorIds } from '@hub/store'
import { Effect, Result } from 'effect'
import { query } from '../sql.ts'
import { joined, type Period } from './periods.ts'

/** A decoded record with its position in Kafka. */
export interface Found<A> {
  readonly value: A
  readonly record: IncomingRecord
}

type Topic = 'lane' | 'log' | 'reports'

/** Reads the records of the recipient in periods, each record once. */
export const readPeriods = Effect.fnUntraced(function* (
  row: Pick<ReadMessages.ProjectedMessage, 'class' | 'recipient'>,
  topic: Topic,
  periods: ReadonlyArray<Period>,
) {
  const { prefix } = yield* catalogueConfig
  const log = yield* EventLog
  const reader = yield* TopicReader
  const names = topicNames(prefix)
  const lane = row.class === 'otp' ? names.acceptedOtp : names.acceptedService
  const key = row.recipient.toString('hex')
  const records = yield* Effect.forEach(joined(periods), (period) =>
    reader.readKey({
      topic: { lane, log: names.messages, reports: names.operatorReports }[topic],
      partition: log.partitionOf(key),
      key,
      ...period,
    }),
  )
  // The hub may have appended a record twice. Its id is the same.
  return [...new Map(records.flat().map((record) => [record.id, record])).values()]
})

/** The facts of a message (UUID). Records that cannot be decoded are dead letters, and left out. */
export const factsOf = (
  records: ReadonlyArray<IncomingRecord>,
  uuid: string,
): ReadonlyArray<Found<MessageFact>> => {
  const id = encodeId('msg', uuid)
  return records.flatMap((record) => {
    const decoded = decodeFact(record)
    return Result.isSuccess(decoded) && decoded.success.messageId === id
      ? [{ value: decoded.success, record }]
      : []
  })
}

const answersWith = (
  records: ReadonlyArray<IncomingRecord>,
  messageId: string,
): ReadonlyArray<Found<OperatorAnswerReceived>> =>
  records
    .filter(({ type }) => type === 'OperatorAnswerReceived')
    .flatMap((record) => {
      const decoded = decodeOperatorAnswerReceived(record)
      return Result.isSuccess(decoded) && decoded.success.messageId === messageId
        ? [{ value: decoded.success, record }]
        : []
    })

/** The answers of operators to the submits of a message (UUID). */
export const answersOf = (
  records: ReadonlyArray<IncomingRecord>,
  uuid: string,
): ReadonlyArray<Found<OperatorAnswerReceived>> => answersWith(records, encodeId('msg', uuid))

/** What could not be understood, perhaps about another message to the recipient. */
export const unreadableOf = (
  records: ReadonlyArray<IncomingRecord>,
): ReadonlyArray<Found<OperatorAnswerReceived>> => answersWith(records, NO_MESSAGE)

/** The reports with the id of the message (UUID), or with an operator's id of the message. */
export const reportsOf = Effect.fnUntraced(function* (records: ReadonlyArray<IncomingRecord>, uuid: string) {
  const id = encodeId('msg', uuid)
  const reports = records
    .filter(({ type }) => type === 'DeliveryReportReceived')
    .flatMap((record): ReadonlyArray<Found<DeliveryReportReceived>> => {
      const decoded = decodeDeliveryReportReceived(record)
      return Result.isSuccess(decoded) ? [{ value: decoded.success, record }] : []
    })
  const matches =
    reports.length === 0
      ? []
      : yield* query((q) =>
          ReadOperatorIds.findMessages(
            q,
            reports.map(({ value }) => value),
          ),
        )
  const own = new Set(
    matches
      .filter(({ message_id }) => message_id === uuid)
      .map(({ operator, operator_id }) => `${operator} ${operator_id}`),
  )
  return reports.filter(({ value: { operator, operatorId, reference } }) =>
    reference === null ? own.has(`${operator} ${operatorId}`) : reference === id,
  )
})
