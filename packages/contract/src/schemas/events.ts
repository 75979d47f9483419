/**
 * Events, as `/v1/events` and webhooks contain them. Each type has a schema of its own. Source:
 * docs/contract/events.md.
 */
import { EVENT_TYPES, type EventType } from '@hub/domain'
import { Schema } from 'effect'
import { Batch } from './batches.ts'
import { listOf, Mode, moment } from './common.ts'
import {
  MessageSnapshot,
  OptOutChange,
  SenderSnapshot,
  SpendLimitSnapshot,
  TemplateSnapshot,
} from './event-objects.ts'
import { AT, constant, EVENT_ID, id, MESSAGE_ID } from './fields.ts'
import { WebhookEndpoint } from './webhook-endpoints.ts'

const ID = id('evt_', 'the event')
const CREATED_AT = moment('When the event was recorded. It never goes back from one event to the next.')

/** `message.delivered` becomes `MessageDeliveredEvent`. */
const schemaName = (type: EventType): string =>
  `${type.replaceAll(/(?:^|[._])([a-z])/gu, (_, letter: string) => letter.toUpperCase())}Event`

const eventOf = <const T extends EventType, O extends Schema.Top>(type: T, object: O, description: string) =>
  Schema.Struct({
    id: ID,
    object: constant('event'),
    type: constant(type),
    created_at: CREATED_AT,
    mode: Mode,
    data: Schema.Struct({ object }).annotate({ description: 'What the event is about.' }),
  }).annotate({ identifier: schemaName(type), title: schemaName(type), description })

/** One schema for each type. */
const EVENT_SCHEMAS = [
  eventOf('message.accepted', MessageSnapshot, 'A message was accepted.'),
  eventOf('message.sent', MessageSnapshot, 'A message was sent to the operator.'),
  eventOf('message.delivered', MessageSnapshot, 'A message was delivered.'),
  eventOf('message.undelivered', MessageSnapshot, 'A message could not be delivered.'),
  eventOf('message.rejected', MessageSnapshot, 'A message was rejected.'),
  eventOf('message.expired', MessageSnapshot, 'A message expired.'),
  eventOf('message.seen', MessageSnapshot, 'A read receipt arrived. The status stays `delivered`.'),
  eventOf('batch.completed', Batch, 'All messages of a batch are final.'),
  eventOf('template.approved', TemplateSnapshot, 'A template was approved.'),
  eventOf('template.declined', TemplateSnapshot, 'A template was declined.'),
  eventOf('sender.registered', SenderSnapshot, 'A sender was registered.'),
  eventOf('sender.declined', SenderSnapshot, 'A sender was declined.'),
  eventOf('account.spend_threshold', SpendLimitSnapshot, 'The amount spent reached the threshold.'),
  eventOf('recipient.opted_out', OptOutChange, 'A recipient opted out of service messages.'),
  eventOf('recipient.opted_in', OptOutChange, 'A recipient opted in again.'),
  eventOf('webhook.endpoint_disabled', WebhookEndpoint, 'Another subscription was disabled by failures.'),
  eventOf('webhook.endpoint_enabled', WebhookEndpoint, 'Another subscription was enabled again.'),
  eventOf('webhook.test', WebhookEndpoint, 'A test delivery to this subscription.'),
] as const

/** An event of a known type. `type` says which of the schemas it has. */
export const KnownEvent = Schema.Union(EVENT_SCHEMAS, { mode: 'oneOf' }).annotate({
  identifier: 'KnownEvent',
  title: 'Known event',
  description: 'An event of a type that this description knows; `type` says which of these it is.',
})

export const Event = Schema.Struct({
  id: ID,
  object: constant('event'),
  type: Schema.Literals(EVENT_TYPES).annotate({
    description: 'What happened. Ignore types that you do not know.',
  }),
  created_at: CREATED_AT,
  mode: Mode,
  data: Schema.Struct({
    object: Schema.Union([
      MessageSnapshot,
      Batch,
      TemplateSnapshot,
      SenderSnapshot,
      SpendLimitSnapshot,
      WebhookEndpoint,
      OptOutChange,
      Schema.Record(Schema.String, Schema.Json),
    ]).annotate({
      description:
        'What the event is about, as it was; its `object` says which. `KnownEvent` says which one belongs to which type. The object ' +
        'of `recipient.*` has no `object`. A type that is added later may have another one.',
    }),
  }).annotate({ description: 'What the event is about.' }),
}).annotate({
  identifier: 'Event',
  title: 'Event',
  description:
    'Something that happened. The same object goes to webhook subscriptions. `KnownEvent` describes each type by itself.',
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
