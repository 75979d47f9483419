/** Inbound messages: what recipients wrote to the hub. */
import { toTimestamp } from '@hub/domain'
import { type InboundMessage, readInboundMessages } from '@hub/store'
import { Effect, Schema } from 'effect'
import { Reason, RecipientHash, Timestamp } from './fields.ts'
import { pageFields } from './pages.ts'
import { auditedRecipient, hashOfRecipient, HashOrRecipient } from './recipient.ts'
import { defineUseCase } from './use-case.ts'

export const Inbound = Schema.Struct({
  id: Schema.String,
  object: Schema.Literal('inbound_message'),
  received_at: Timestamp,
  recipient: RecipientHash,
  /** Empty when it is no longer stored. */
  number: Schema.String,
  /** `null` when it is no longer stored. */
  text: Schema.NullOr(Schema.String),
  /** After 90 days, the number and the text are masked. */
  masked: Schema.Boolean,
  service_address: Schema.String,
  operator: Schema.String,
})

const toValue = (message: InboundMessage): typeof Inbound.Type => ({
  id: message.id,
  object: 'inbound_message',
  received_at: toTimestamp(message.receivedAt),
  recipient: message.recipient,
  number: message.number,
  text: message.text,
  masked: message.isMasked,
  service_address: message.serviceAddress,
  operator: message.operator,
})

/** The newest inbound messages with number and text, of one recipient or of all. */
export const list = defineUseCase({
  name: 'inbound list',
  permission: 'messages.reveal',
  input: Schema.Struct({
    recipient: Schema.NullOr(HashOrRecipient),
    reason: Schema.NullOr(Reason),
    limit: pageFields.limit,
  }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(Inbound) }),
  audit: ({ limit, recipient }) => ({
    ...(recipient === null ? { recipient } : auditedRecipient({ recipient })),
    limit,
  }),
  result: ({ data }) => ({ messages: data.length }),
  reason: ({ reason }) => reason,
  counts: () => true,
  run: Effect.fnUntraced(function* ({ limit, recipient }) {
    const hash = recipient === null ? null : yield* hashOfRecipient(recipient)
    const messages = yield* readInboundMessages(hash, limit)
    return { object: 'list' as const, data: messages.map(toValue) }
  }),
})
