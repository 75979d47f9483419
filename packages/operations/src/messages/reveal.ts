/**
 * What the hub keeps encrypted about a message: the number, the text and the variables for a year,
 * and what SMS operators sent about it, as they sent it, for 90 days. The audit trail has the reason.
 */
import { encodeId, isFinal, toTimestamp } from '@hub/domain'
import type { IncomingRecord } from '@hub/kafka'
import {
  answerContext,
  decodePayload,
  MasterKeyEncryption,
  PayloadEncryption,
  type ReadMessages,
  reportContext,
} from '@hub/store'
import { Clock, Effect, Schema } from 'effect'
import { publicId, Reason, Timestamp } from '../fields.ts'
import { defineUseCase } from '../use-case.ts'
import { between } from './periods.ts'
import { readMessage } from './read-message.ts'
import { answersOf, readPeriods, reportsOf, unreadableOf } from './records.ts'

/** Operators repeat a report within the hour. */
const REPEATED_WITHIN_MS = 3_600_000

const OperatorRecord = Schema.Struct({
  object: Schema.Literal('operator_record'),
  kind: Schema.Literals(['answer', 'report', 'unreadable']).annotate({
    description:
      'An answer to a submit, a delivery report, or what the hub could not understand: a report or an inbound message of the number, perhaps about another message to it.',
  }),
  received_at: Timestamp,
  operator: Schema.String,
  operator_id: Schema.NullOr(Schema.String).annotate({
    description: '`null` for an answer, and for what the hub could not understand: it is in the raw text.',
  }),
  outcome: Schema.NullOr(Schema.String),
  raw: Schema.NullOr(Schema.String).annotate({
    description:
      'As the operator sent it. Octets that are no text, such as in SMPP, are shown as `\\x00`. `null`: its key is destroyed, or the recipient is erased.',
  }),
}).annotate({ identifier: 'OperatorRecord' })

/** Text as it is. Of other records (SMPP), the octets that are no printable text as `\x00`. */
const rawText = (plain: Buffer): string => {
  const text = plain.toString('utf8')
  // eslint-disable-next-line no-control-regex
  if (!/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\ufffd]/u.test(text)) return text
  return plain
    .toString('latin1')
    .replaceAll(/[^\u0020-\u007e]/gu, (octet) => `\\x${octet.charCodeAt(0).toString(16).padStart(2, '0')}`)
}

const decryptedText = Effect.fnUntraced(function* (
  key: string | null,
  context: string,
  ciphertext: Uint8Array | null,
) {
  if (key === null || ciphertext === null) return null
  const plain = yield* (yield* PayloadEncryption).decrypt(key, context, ciphertext)
  return plain === null ? null : rawText(plain)
})

/** The answers and reports among records, oldest first. `mayShow`: whether they are decrypted. */
const rawRecords = Effect.fnUntraced(function* (
  records: ReadonlyArray<IncomingRecord>,
  { id: uuid, may_show: mayShow }: Pick<ReadMessages.ProjectedMessage, 'id' | 'may_show'>,
) {
  const keyOf = (key: string | null) => (mayShow ? key : null)
  const shown = (kind: 'answer' | 'unreadable', found: ReturnType<typeof unreadableOf>) =>
    Effect.forEach(found, ({ value }) =>
      Effect.map(decryptedText(keyOf(value.rawKey), answerContext(value), value.rawCiphertext), (raw) => ({
        object: 'operator_record' as const,
        kind,
        received_at: toTimestamp(value.receivedAt),
        operator: value.operator,
        operator_id: null,
        outcome: null,
        raw,
      })),
    )
  const answers = yield* shown('answer', answersOf(records, uuid))
  const unreadable = yield* shown('unreadable', unreadableOf(records))
  const reports = yield* Effect.forEach(yield* reportsOf(records, uuid), ({ value }) =>
    Effect.map(decryptedText(keyOf(value.rawKey), reportContext(value), value.rawCiphertext), (raw) => ({
      object: 'operator_record' as const,
      kind: 'report' as const,
      received_at: toTimestamp(value.receivedAt),
      operator: value.operator,
      operator_id: value.operatorId,
      outcome: value.outcome,
      raw,
    })),
  )
  return [...answers, ...unreadable, ...reports].toSorted((a, b) => (a.received_at < b.received_at ? -1 : 1))
})

const revealInput = Schema.Struct({ id: publicId('msg'), reason: Schema.NullOr(Reason) })

/** What operators sent about a message, oldest first. */
export const raw = defineUseCase({
  name: 'messages raw',
  permission: 'messages.reveal',
  input: revealInput,
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(OperatorRecord) }),
  audit: ({ id }) => ({ message: id }),
  reason: ({ reason }) => reason,
  counts: () => true,
  result: ({ data }) => ({ records: data.length }),
  run: ({ id }) =>
    Effect.gen(function* () {
      const { row } = yield* readMessage(id)
      // A report that cannot be understood leaves the message as it is, for as long as it is open.
      const end = isFinal(row.status)
        ? row.updated_at.getTime() + REPEATED_WITHIN_MS
        : yield* Clock.currentTimeMillis
      const period = between(row.created_at.getTime(), end)
      const records = yield* readPeriods(row, 'reports', [period])
      return { object: 'list' as const, data: yield* rawRecords(records, row) }
    }),
})

const decryptedPayload = Effect.fnUntraced(function* (row: ReadMessages.ProjectedMessage) {
  const { personal, personal_key: key } = row
  if (personal === null) return null
  const id = encodeId('msg', row.id)
  const plain =
    key === null
      ? yield* (yield* MasterKeyEncryption).decrypt('personal-data', id, personal)
      : yield* (yield* PayloadEncryption).decrypt(key, id, personal)
  return plain === null ? null : decodePayload(plain)
})

/** The number and the text of a message. A code has neither text nor variables. */
export const reveal = defineUseCase({
  name: 'messages reveal',
  permission: 'messages.reveal',
  input: revealInput,
  output: Schema.Struct({
    object: Schema.Literal('revealed_message'),
    message: publicId('msg'),
    to: Schema.NullOr(Schema.String),
    text: Schema.NullOr(Schema.String),
    variables: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
    explanation: Schema.NullOr(Schema.String),
  }).annotate({ identifier: 'RevealedMessage' }),
  audit: ({ id }) => ({ message: id }),
  reason: ({ reason }) => reason,
  counts: () => true,
  run: ({ id }) =>
    Effect.gen(function* () {
      const { isProjected, row } = yield* readMessage(id)
      const payload = yield* decryptedPayload(row)
      const explanation = !isProjected
        ? 'The projectors have not recorded the message yet.'
        : payload === null
          ? 'The number and the text are older than a year, or were erased.'
          : row.class === 'otp'
            ? 'The hub never stores the text of a code.'
            : null
      return {
        object: 'revealed_message' as const,
        message: id,
        to: payload?.to ?? null,
        text: payload?.text ?? null,
        variables: payload?.variables ?? null,
        explanation,
      }
    }),
})
