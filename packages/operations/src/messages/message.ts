/** A message as hub staff see it: the hash of the recipient, and neither number nor text. */
import { encodeId, isFinal, MESSAGE_CLASSES, STATUSES, toTimestamp } from '@hub/domain'
import { type Queries, ReadMessages } from '@hub/store'
import { Schema } from 'effect'
import { Mode, Timestamp } from '../fields.ts'

export const Message = Schema.Struct({
  id: Schema.String,
  object: Schema.Literal('message'),
  account: Schema.String,
  mode: Mode,
  class: Schema.Literals(MESSAGE_CLASSES),
  recipient: Schema.String.annotate({ description: 'The recipient hash, 64 hexadecimal digits.' }),
  template: Schema.String,
  sender: Schema.String,
  client_ref: Schema.NullOr(Schema.String),
  batch: Schema.NullOr(Schema.String),
  status: Schema.Literals(STATUSES),
  final: Schema.Boolean,
  reason_code: Schema.NullOr(Schema.String),
  attempts: Schema.Int,
  parts: Schema.Int,
  price: Schema.String.annotate({ description: 'A decimal amount.' }),
  currency: Schema.String,
  created_at: Timestamp,
  updated_at: Timestamp,
}).annotate({ identifier: 'Message' })
export type Message = typeof Message.Type

export const toMessage = (row: ReadMessages.ProjectedMessage): Message => ({
  id: encodeId('msg', row.id),
  object: 'message',
  account: encodeId('acc', row.account),
  mode: row.mode,
  class: row.class,
  recipient: row.recipient.toString('hex'),
  template: row.template,
  sender: row.sender,
  client_ref: row.client_ref,
  batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
  status: row.status,
  final: isFinal(row.status),
  reason_code: row.reason_code,
  attempts: row.attempts,
  parts: row.parts,
  price: row.price,
  currency: row.currency,
  created_at: toTimestamp(row.created_at.getTime()),
  updated_at: toTimestamp(row.updated_at.getTime()),
})

/** The shown ones of these messages (UUIDs), in this order. */
export const readInOrder = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<ReadMessages.ProjectedMessage>> => {
  if (ids.length === 0) return []
  const rows = new Map((await ReadMessages.readAll(q, ids)).map((row) => [row.id, row]))
  return ids.flatMap((id) => rows.get(id) ?? []).filter((row) => row.is_shown)
}
