/** Events, as `/v1/events` and webhooks contain them. Source: contract decisions, Events. */
import { EVENT_TYPES } from '@hub/domain'
import { Schema } from 'effect'
import { listOf, Mode, moment } from './common.ts'
import { AT, constant, EVENT_ID, id, MESSAGE_ID } from './fields.ts'
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
})

export const Event = Schema.Struct({
  id: id('evt_', 'the event'),
  object: constant('event'),
  type: Schema.Literals(EVENT_TYPES).annotate({
    description: 'What happened. Ignore types that you do not know.',
  }),
  created_at: moment('When the event was recorded. It never goes back from one event to the next.'),
  mode: Mode,
  data: Schema.Struct({
    object: Schema.Union([MessageSnapshot, Schema.Record(Schema.String, Schema.Json)]).annotate({
      description:
        'The resource as it was; its `object` says which. For `message.*` it is a message snapshot, for `batch.*` a batch, for ' +
        '`template.*` a template, for `sender.*` a sender, for `webhook.*` a subscription and for ' +
        '`account.spend_threshold` the account. For `recipient.*` it is the recipient hash and your last message to that ' +
        'recipient.',
    }),
  }).annotate({ description: 'What the event is about.' }),
}).annotate({
  identifier: 'Event',
  title: 'Event',
  description: 'Something that happened. The same object goes to webhook subscriptions.',
  examples: [
    {
      id: EVENT_ID,
      object: 'event',
      type: 'message.delivered',
      created_at: '2026-11-21T09:30:01.260Z',
      mode: 'test',
      data: {
        object: {
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
      },
    },
  ],
})

export const EventList = listOf(Event, 'EventList', 'oldest first')
