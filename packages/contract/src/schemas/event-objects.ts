/** The objects of events, where they differ from those that reads return: events contain no texts and no numbers. */
import { SENDER_STATUSES, TEMPLATE_STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import { MessageClass, Mode, moment } from './common.ts'
import { Account } from './account.ts'
import { anyId, AT, constant, id, MESSAGE_ID, name, SENDER_ID, TEMPLATE_ID } from './fields.ts'
import { messageFields } from './message-fields.ts'

/** A message in an event: without number, text and variables. */
export const MessageSnapshot = Schema.Struct({
  id: messageFields.id,
  object: messageFields.object,
  status: messageFields.status,
  final: messageFields.final,
  class: messageFields.class,
  reason_code: messageFields.reason_code,
  client_ref: messageFields.client_ref,
  batch: messageFields.batch,
  template: messageFields.template,
  created_at: messageFields.created_at,
  parts: messageFields.parts,
  price: messageFields.price,
}).annotate({
  identifier: 'MessageSnapshot',
  title: 'Message snapshot',
  description:
    'The message of a `message.*` event, at that moment. Never with a number, a text or a variable.',
  examples: [
    {
      id: MESSAGE_ID,
      object: 'message',
      status: 'delivered',
      final: true,
      class: 'otp',
      reason_code: null,
      client_ref: 'order-1001-code',
      batch: null,
      template: 'otp_code',
      created_at: AT,
      parts: 1,
      price: { amount: '0.00', currency: 'RUB' },
    },
  ],
})

export const TemplateSnapshot = Schema.Struct({
  id: id('tpl_', 'the template'),
  object: constant('template'),
  name: name('Name that sends refer to.', 'order_ready'),
  class: MessageClass,
  sender: name('Name that recipients see.', 'HUB'),
  status: Schema.Literals(TEMPLATE_STATUSES).annotate({ description: 'What was decided.' }),
  reason: Schema.NullOr(Schema.String).annotate({
    description: 'Why the template was declined; `null` otherwise.',
  }),
  created_at: moment('When the template was created.'),
  mode: Mode,
}).annotate({
  identifier: 'TemplateSnapshot',
  title: 'Template snapshot',
  description: 'The template of a `template.*` event, at that moment. Never with its text.',
  examples: [
    {
      id: TEMPLATE_ID,
      object: 'template',
      name: 'order_ready',
      class: 'service',
      sender: 'HUB',
      status: 'approved',
      reason: null,
      created_at: AT,
      mode: 'live',
    },
  ],
})

export const SenderSnapshot = Schema.Struct({
  id: id('snd_', 'the sender'),
  object: constant('sender'),
  name: name('Name that recipients see.', 'HUB'),
  status: Schema.Literals(SENDER_STATUSES).annotate({ description: 'What was decided.' }),
  reason: Schema.NullOr(Schema.String).annotate({
    description: 'Why the sender was declined; `null` otherwise.',
  }),
  created_at: moment('When the sender was created.'),
  mode: Mode,
}).annotate({
  identifier: 'SenderSnapshot',
  title: 'Sender snapshot',
  description: 'The sender of a `sender.*` event, at that moment. Never with its registration.',
  examples: [
    {
      id: SENDER_ID,
      object: 'sender',
      name: 'HUB',
      status: 'registered',
      reason: null,
      created_at: AT,
      mode: 'live',
    },
  ],
})

const spendLimit = Account.fields.spend_limit.schema.members[0].fields

/** The spend limit as the account shows it. The event itself is the moment at which the threshold was reached. */
export const SpendLimitSnapshot = Schema.Struct({
  object: constant('spend_limit'),
  limit: spendLimit.limit,
  spent: spendLimit.spent,
  period: spendLimit.period,
  soft_threshold_percent: spendLimit.soft_threshold_percent,
}).annotate({
  identifier: 'SpendLimitSnapshot',
  title: 'Spend limit snapshot',
  description: 'The spend limit of the account, at that moment.',
  examples: [
    {
      object: 'spend_limit',
      limit: { amount: '10000.00', currency: 'RUB' },
      spent: { amount: '8002.50', currency: 'RUB' },
      period: { from: '2026-11-01T00:00:00.000Z', to: '2026-12-01T00:00:00.000Z' },
      soft_threshold_percent: 80,
    },
  ],
})

export const OptOutChange = Schema.Struct({
  recipient: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u)).annotate({
    description: 'The recipient hash, and never the number.',
  }),
  message: Schema.NullOr(anyId('msg_')).annotate({
    description: 'The last message that you sent to this recipient; `null` where it is not known.',
  }),
}).annotate({
  identifier: 'OptOutChange',
  title: 'Change of an opt-out',
  description: 'The object of `recipient.*` events.',
  examples: [{ recipient: '5f'.repeat(32), message: MESSAGE_ID }],
})
