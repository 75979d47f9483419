/**
 * `hubctl messages raw`: what the operator sent about a message, as it sent it. The dispatchers
 * keep answers and reports encrypted for 90 days (docs/decisions/0043).
 */
import { toTimestamp } from '@hub/domain'
import {
  catalogueConfig,
  decodeDeliveryReportReceived,
  decodeOperatorAnswerReceived,
  EventLog,
  type IncomingRecord,
  topicNames,
  TopicReader,
} from '@hub/kafka'
import { answerContext, PayloadEncryption, ReadMessages, ReadOperatorIds, reportContext } from '@hub/store'
import { Effect, Result } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import { type Id, idArgument } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { encryptedRecords, query } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { showList } from '../command-line/output.ts'

/** The clocks of the hub's machines differ by seconds, and reports repeat within the hour. */
const BEFORE_MS = 60_000
const AFTER_MS = 3_600_000

/** An answer or a report, before decryption. */
interface OperatorRecord {
  readonly kind: 'answer' | 'report'
  readonly receivedAt: number
  readonly operator: string
  /** `null` for an answer: it is in the raw text. */
  readonly operatorId: string | null
  readonly outcome: string | null
  readonly key: string | null
  readonly sealed: Uint8Array | null
  /** The authenticated data of the ciphertext. */
  readonly context: string
}

const answersOf = (records: ReadonlyArray<IncomingRecord>, { id }: Id): ReadonlyArray<OperatorRecord> =>
  records
    .filter(({ type }) => type === 'OperatorAnswerReceived')
    .flatMap((record) => {
      const decoded = decodeOperatorAnswerReceived(record)
      if (Result.isFailure(decoded) || decoded.success.messageId !== id) return []
      const { operator, rawKey, rawSealed, receivedAt } = decoded.success
      const context = answerContext(decoded.success)
      const none = { operatorId: null, outcome: null }
      return [{ kind: 'answer', receivedAt, operator, ...none, key: rawKey, sealed: rawSealed, context }]
    })

/** The reports with the id of the message, or with an operator id of the message. */
const reportsOf = Effect.fnUntraced(function* (records: ReadonlyArray<IncomingRecord>, { id, uuid }: Id) {
  const reports = records
    .filter(({ type }) => type === 'DeliveryReportReceived')
    .flatMap((record) => {
      const decoded = decodeDeliveryReportReceived(record)
      return Result.isSuccess(decoded) ? [decoded.success] : []
    })
  const matches = yield* query((q) => ReadOperatorIds.findMessages(q, reports))
  const own = new Set(
    matches
      .filter(({ message_id }) => message_id === uuid)
      .map(({ operator, operator_id }) => `${operator} ${operator_id}`),
  )
  return reports
    .filter(({ operator, operatorId, reference }) =>
      reference === null ? own.has(`${operator} ${operatorId}`) : reference === id,
    )
    .map((report): OperatorRecord => {
      const { operator, operatorId, outcome, rawKey, rawSealed, receivedAt } = report
      const context = reportContext(report)
      return {
        kind: 'report',
        receivedAt,
        operator,
        operatorId,
        outcome,
        key: rawKey,
        sealed: rawSealed,
        context,
      }
    })
})

/** Printable text as it is, other octets (SMPP) in hexadecimal. */
const rawText = (plain: Buffer): string => {
  const text = plain.toString('utf8')
  // eslint-disable-next-line no-control-regex
  return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\ufffd]/u.test(text) ? plain.toString('hex') : text
}

const decrypted = Effect.fnUntraced(function* (record: OperatorRecord) {
  const encryption = yield* PayloadEncryption
  const { context, kind, key, operator, operatorId, outcome, receivedAt, sealed } = record
  const plain = key === null || sealed === null ? null : yield* encryption.decrypt(key, context, sealed)
  return {
    object: 'operator_record',
    kind,
    received_at: toTimestamp(receivedAt),
    operator,
    operator_id: operatorId,
    outcome,
    raw: plain === null ? null : rawText(plain),
  }
})

/** Reads and decrypts what operators sent about a message, oldest first. */
const readRaw = Effect.fnUntraced(function* (message: Id) {
  const [row] = yield* query((q) => ReadMessages.readAll(q, [message.uuid]))
  if (row === undefined) {
    return yield* refused('message_not_found', `The read model has no message ${message.id}.`)
  }
  const { prefix } = yield* catalogueConfig
  const log = yield* EventLog
  const reader = yield* TopicReader
  const key = row.recipient.toString('hex')
  const records = yield* reader.readKey({
    topic: topicNames(prefix).operatorReports,
    partition: log.partitionOf(key),
    key,
    from: row.created_at.getTime() - BEFORE_MS,
    to: row.updated_at.getTime() + AFTER_MS,
  })
  const found = [...answersOf(records, message), ...(yield* reportsOf(records, message))]
  return yield* Effect.forEach(
    found.toSorted((a, b) => a.receivedAt - b.receivedAt),
    decrypted,
  )
})

export const raw = defineCommand(
  'raw',
  {
    short: 'Show what the operator sent about a message',
    about:
      'Shows the answers to the submits of a message and its delivery reports, as the operator sent ' +
      'them: text, or hexadecimal for SMPP. The hub keeps them encrypted for 90 days. They can contain ' +
      'the number and the text. Reports later than an hour after the last change are left out.',
    changes: 'Only the audit trail, because the command reads data of a person.',
    examples: [{ command: 'hubctl messages raw msg_06fs37r7c5yb6k1v9b2h8zq4mt' }],
    needs: encryptedRecords,
  },
  { message: idArgument('msg', 'message', 'The id of the message') },
  Effect.fnUntraced(function* ({ message }) {
    const records = yield* audited(
      { command: 'messages raw', arguments: { message: message.id } },
      readRaw(message),
      (found) => ({ records: found.length }),
    )
    yield* showList(
      records,
      {
        received: (row) => row.received_at,
        kind: (row) => row.kind,
        operator: (row) => row.operator,
        'operator id': (row) => row.operator_id,
        outcome: (row) => row.outcome,
        raw: (row) => row.raw,
      },
      'The hub has nothing of an operator about this message.',
    )
  }),
)
