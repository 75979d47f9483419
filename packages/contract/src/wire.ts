/**
 * What goes over the wire: the resources as clients see them. Sources: specification, Resources and their
 * fields; contract decisions, Message, Events, Webhook subscription, Account.
 *
 * Clients ignore fields and enumeration values that they do not know, so both may be added at any time.
 */
import { Schema } from 'effect'
import {
  EVENT_TYPES,
  EXPIRED_REASONS,
  MESSAGE_CLASSES,
  MODES,
  RECIPIENT_NUMBER_PATTERN,
  REJECTED_REASONS,
  STATUSES,
  SUBSCRIPTION_STATUSES,
  UNDELIVERED_REASONS,
  VARIABLE_MAX_LENGTH,
} from '@hub/domain'
import { ERROR_CODES, FLOOD_WINDOWS } from './errors.ts'
import { MAX_CLIENT_REF_LENGTH, MAX_URL_LENGTH, TEMPLATE_NAME_PATTERN, TIMESTAMP_PATTERN } from './limits.ts'

const AT = '2026-11-21T09:30:00.000Z'
const MESSAGE_ID = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw'
const ENDPOINT_ID = 'we_06e9c2v5k4r8x1m7n3p0q2s6tw'
const EVENT_ID = 'evt_1m7n3p0q2s6tw06e9c2v5k4r8x'

// ---------------------------------------------------------------------------------------------------------
// Words
// ---------------------------------------------------------------------------------------------------------

/** Every reason code, of whatever status. New ones may be added. */
export const REASON_CODES = [...UNDELIVERED_REASONS, ...REJECTED_REASONS, ...EXPIRED_REASONS] as const

/** UTC, ISO 8601 with milliseconds and a trailing Z. */
export const Timestamp = Schema.String.check(Schema.isPattern(TIMESTAMP_PATTERN)).annotate({
  description: 'A moment in UTC, ISO 8601 with milliseconds and a trailing Z.',
  examples: [AT],
})

const moment = (description: string) => Timestamp.annotate({ description })

const id = (prefix: string, of: string) =>
  Schema.String.annotate({ description: `Identifier of ${of}: \`${prefix}\` and opaque characters.` })

const constant = <const L extends string>(value: L) =>
  Schema.Literal(value).annotate({ description: `Always \`${value}\`.` })

export const Mode = Schema.Literals(MODES).annotate({
  description: '`live`, or `test` for the sandbox. It follows from the API key.',
})

export const MessageClass = Schema.Literals(MESSAGE_CLASSES).annotate({
  description: 'Traffic class: `otp` for one-time codes, `service` for service messages.',
})

export const MessageStatus = Schema.Literals(STATUSES).annotate({
  description:
    '`accepted`: not yet handed to the operator. `sent`: handed over. `delivered`, `undelivered`, `rejected`, `expired`: final.',
})

export const ReasonCode = Schema.NullOr(Schema.Literals(REASON_CODES)).annotate({
  description:
    'Why the message failed or expired; `null` otherwise. `dlr_timeout`: retry later. `dlr_timeout_local`: it may have arrived, ' +
    'wait for a late report. `ttl_expired_before_submit`: never handed over, a resend is safe.',
})

/** A string decimal with its currency; never a float. */
export const Money = Schema.Struct({
  amount: Schema.String.check(Schema.isPattern(/^[0-9]+\.[0-9]{2}$/u)).annotate({
    description: 'Decimal number with two fraction digits, as a string.',
    examples: ['12.50'],
  }),
  currency: Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/u)).annotate({
    description: 'ISO 4217 code.',
    examples: ['RUB'],
  }),
}).annotate({ identifier: 'Money', title: 'Money', description: 'An amount of money.' })

const atLeast = (minimum: number) => Schema.Int.check(Schema.isGreaterThanOrEqualTo(minimum))

const ClientRef = Schema.NullOr(Schema.String).annotate({
  description: 'Your own record identifier, as you sent it.',
})

// ---------------------------------------------------------------------------------------------------------
// Messages
// ---------------------------------------------------------------------------------------------------------

/** Body of `POST /v1/messages`. `decodeSendRequest` is what checks it. */
export const SendRequest = Schema.Struct({
  to: Schema.String.check(Schema.isPattern(RECIPIENT_NUMBER_PATTERN)).annotate({
    description: 'Recipient number in E.164 form.',
    examples: ['+79000000001'],
  }),
  class: MessageClass,
  template: Schema.String.check(Schema.isPattern(TEMPLATE_NAME_PATTERN)).annotate({
    description: 'Name of a template registered earlier, of the same class.',
    examples: ['otp_code'],
  }),
  variables: Schema.optionalKey(
    Schema.Record(
      Schema.String,
      Schema.Union([Schema.String.check(Schema.isMaxLength(VARIABLE_MAX_LENGTH)), Schema.Finite]),
    ).annotate({
      description:
        'Variable name to value, one for each placeholder of the template. A number is written as JSON writes it.',
      examples: [{ code: '4821' }],
    }),
  ),
  client_ref: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_CLIENT_REF_LENGTH)).annotate({
      description:
        'Your own record identifier. A second send with the same one creates nothing and answers with the earlier message.',
      examples: ['order-1001-code'],
    }),
  ),
}).annotate({
  identifier: 'SendRequest',
  title: 'Send request',
  description:
    'One message. There is no free text: the template was created and moderated beforehand. `send_at` is not supported: ' +
    'any value of it is refused.',
  examples: [
    {
      to: '+79000000001',
      class: 'otp',
      template: 'otp_code',
      variables: { code: '4821' },
      client_ref: 'order-1001-code',
    },
  ],
})
export type SendRequest = typeof SendRequest.Type

/** One change of status. */
export const StatusChange = Schema.Struct({
  status: MessageStatus,
  reason_code: ReasonCode,
  at: moment('When the status was reached.'),
}).annotate({ identifier: 'StatusChange', title: 'Status change', description: 'One change of status.' })

const messageFields = {
  id: id('msg_', 'the message'),
  object: constant('message'),
  status: MessageStatus,
  final: Schema.Boolean.annotate({
    description: 'True once the status is terminal; it never goes back to false.',
  }),
  to: Schema.String.annotate({
    description: 'The recipient, masked. Empty once the message is older than a year.',
    examples: ['+7900***0001'],
  }),
  class: MessageClass,
  created_at: moment('When the service accepted the message.'),
  updated_at: moment('When the message last changed.'),
  reason_code: ReasonCode,
  client_ref: ClientRef,
  batch: Schema.NullOr(Schema.String).annotate({
    description: 'Identifier of the batch that the message came in; `null` for a single send.',
  }),
  template: Schema.String.annotate({ description: 'Name of the template.', examples: ['otp_code'] }),
  sender: Schema.String.annotate({ description: 'Name that the recipient sees.', examples: ['HUB'] }),
  attempts: atLeast(0).annotate({
    description: 'How often the message was handed to the operator.',
  }),
  parts: atLeast(1).annotate({
    description: 'Number of SMS parts.',
  }),
  price: Money.annotate({ description: 'What was charged: zero when the message was not billed.' }),
  history: Schema.Array(StatusChange).annotate({ description: 'Every status so far, in order.' }),
  mode: Mode,
}

const acceptedExample = {
  id: MESSAGE_ID,
  object: 'message',
  status: 'accepted',
  final: false,
  to: '+7900***0001',
  class: 'otp',
  created_at: AT,
  updated_at: AT,
  reason_code: null,
  client_ref: 'order-1001-code',
  batch: null,
  template: 'otp_code',
  sender: 'HUB',
  attempts: 0,
  parts: 1,
  price: { amount: '0.00', currency: 'RUB' },
  history: [{ status: 'accepted', reason_code: null, at: AT }],
  mode: 'test',
} as const

/** Answer to `POST /v1/messages`: the message without text and variables. */
export const AcceptedMessage = Schema.Struct({
  ...messageFields,
  duplicate: Schema.optionalKey(
    Schema.Literal(true).annotate({
      description:
        'Present when the `client_ref` was used before: this is the earlier message as it stands now.',
    }),
  ),
}).annotate({
  identifier: 'AcceptedMessage',
  title: 'Accepted message',
  description: 'The service answers for this message from here on. It does not mean delivery.',
  examples: [acceptedExample],
})
export type AcceptedMessage = typeof AcceptedMessage.Type

/** Answer to `GET /v1/messages/{id}`. */
export const Message = Schema.Struct({
  ...messageFields,
  text: Schema.NullOr(Schema.String).annotate({
    description: 'The rendered text of a `service` message in its first year; `null` otherwise.',
  }),
  variables: Schema.NullOr(
    Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite])),
  ).annotate({
    description:
      'Values as they were sent, in the first year; those of an `otp` message are masked as `***`. `null` otherwise.',
  }),
}).annotate({
  identifier: 'Message',
  title: 'Message',
  description: 'A message as it stands now.',
  examples: [
    {
      ...acceptedExample,
      status: 'delivered',
      final: true,
      updated_at: '2026-11-21T09:30:01.250Z',
      attempts: 1,
      history: [
        { status: 'accepted', reason_code: null, at: AT },
        { status: 'sent', reason_code: null, at: '2026-11-21T09:30:00.040Z' },
        { status: 'delivered', reason_code: null, at: '2026-11-21T09:30:01.250Z' },
      ],
      text: null,
      variables: { code: '***' },
    },
  ],
})
export type Message = typeof Message.Type

// ---------------------------------------------------------------------------------------------------------
// Events
// ---------------------------------------------------------------------------------------------------------

/** A message as events carry it: never a number, a text or a variable. */
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
export type MessageSnapshot = typeof MessageSnapshot.Type

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
        'The resource as it was; its `object` says which. For `message.*` it is a message snapshot.',
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
export type Event = typeof Event.Type

// ---------------------------------------------------------------------------------------------------------
// Webhook subscriptions
// ---------------------------------------------------------------------------------------------------------

/** Body of `POST /v1/webhook_endpoints`. `decodeWebhookEndpointCreate` is what checks it. */
export const WebhookEndpointCreate = Schema.Struct({
  url: Schema.String.check(Schema.isMaxLength(MAX_URL_LENGTH), Schema.isPattern(/^https:\/\//u)).annotate({
    description: 'Public https address without credentials. Redirects are not followed.',
    examples: ['https://example.com/hooks/sms'],
  }),
  event_types: Schema.optionalKey(
    Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
      description: 'Types to receive. Empty or absent: all of them, those to come as well.',
    }),
  ),
}).annotate({
  identifier: 'WebhookEndpointCreate',
  title: 'Webhook endpoint to create',
  description: 'A subscription to create.',
  examples: [
    { url: 'https://example.com/hooks/sms', event_types: ['message.delivered', 'message.undelivered'] },
  ],
})
export type WebhookEndpointCreate = typeof WebhookEndpointCreate.Type

const webhookEndpointFields = {
  id: id('we_', 'the subscription'),
  object: constant('webhook_endpoint'),
  url: Schema.String.annotate({
    description: 'Where events go.',
    examples: ['https://example.com/hooks/sms'],
  }),
  event_types: Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
    description: 'Types that it receives; empty: all.',
  }),
  status: Schema.Literals(SUBSCRIPTION_STATUSES).annotate({
    description:
      '`disabled_by_failures` after 20 failures in a row over at least an hour; the backlog is kept for 24 hours.',
  }),
  created_at: moment('When the subscription was created.'),
  disabled_at: Schema.NullOr(Timestamp).annotate({
    description: 'When it was disabled; `null` while it is enabled.',
  }),
  disabled_reason: Schema.NullOr(Schema.String).annotate({
    description: 'What the last failure was; `null` while it is enabled.',
  }),
  consecutive_failures: atLeast(0).annotate({
    description: 'Deliveries that failed since the last success.',
  }),
  secret_rotation_ends_at: Schema.NullOr(Timestamp).annotate({
    description: 'Until when the previous secret signs as well; `null` outside a rotation.',
  }),
}

const endpointExample = {
  id: ENDPOINT_ID,
  object: 'webhook_endpoint',
  url: 'https://example.com/hooks/sms',
  event_types: ['message.delivered', 'message.undelivered'],
  status: 'enabled',
  created_at: AT,
  disabled_at: null,
  disabled_reason: null,
  consecutive_failures: 0,
  secret_rotation_ends_at: null,
} as const

export const WebhookEndpoint = Schema.Struct(webhookEndpointFields).annotate({
  identifier: 'WebhookEndpoint',
  title: 'Webhook endpoint',
  description: 'A subscription to events.',
  examples: [endpointExample],
})
export type WebhookEndpoint = typeof WebhookEndpoint.Type

/** Answer to a creation, and to a rotation: with the signing secret, this once. */
export const WebhookEndpointWithSecret = Schema.Struct({
  ...webhookEndpointFields,
  secret: Schema.String.check(Schema.isPattern(/^whsec_[A-Za-z0-9+/]{43}=$/u)).annotate({
    description:
      'Signing secret, shown this once. The whole string is the key of the HMAC-SHA-256 in `Hub-Signature`.',
  }),
}).annotate({
  identifier: 'WebhookEndpointWithSecret',
  title: 'Webhook endpoint with its secret',
  description: 'A subscription to events, with the secret that signs them.',
  examples: [{ ...endpointExample, secret: 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=' }],
})
export type WebhookEndpointWithSecret = typeof WebhookEndpointWithSecret.Type

// ---------------------------------------------------------------------------------------------------------
// Account
// ---------------------------------------------------------------------------------------------------------

export const Account = Schema.Struct({
  id: id('acc_', 'the account'),
  object: constant('account'),
  name: Schema.String.annotate({ description: 'Name of the account.' }),
  mode: Mode,
  limits: Schema.Struct({
    api_rps: atLeast(1).annotate({ description: 'Requests per second, for each key.' }),
    batch_max: atLeast(1).annotate({ description: 'Most messages of a batch.' }),
  }).annotate({ description: 'What is in force for this account.' }),
  flood_windows: Schema.Struct({
    pause_seconds: atLeast(0).annotate({
      description: 'Least time between messages to a number, in seconds.',
    }),
    per_hour: atLeast(1).annotate({ description: 'Most messages to a number within an hour.' }),
    per_day: atLeast(1).annotate({ description: 'Most messages to a number within a day.' }),
  }).annotate({ description: 'Windows per recipient, in force for this account.' }),
  spend_limit: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        limit: Money.annotate({ description: 'The boundary that the hub operator set.' }),
        spent: Money.annotate({ description: 'What was charged in the period.' }),
        period: Schema.Struct({
          from: moment('Start of the period.'),
          to: moment('End of the period, not included.'),
        }).annotate({ description: 'A calendar month in UTC.' }),
        soft_threshold_percent: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })).annotate({
          description: 'At this share of the limit `account.spend_threshold` is sent, once a period.',
        }),
      }),
    ).annotate({ description: '`null` when no limit is set. Absent in test mode.' }),
  ),
}).annotate({
  identifier: 'Account',
  title: 'Account',
  description: 'The account of the key, with the values in force for it.',
  examples: [
    {
      id: 'acc_06e9c2v5k4r8x1m7n3p0q2s6tw',
      object: 'account',
      name: 'Shop',
      mode: 'live',
      limits: { api_rps: 100, batch_max: 1000 },
      flood_windows: { pause_seconds: 60, per_hour: 5, per_day: 20 },
      spend_limit: {
        limit: { amount: '10000.00', currency: 'RUB' },
        spent: { amount: '412.50', currency: 'RUB' },
        period: { from: '2026-11-01T00:00:00.000Z', to: '2026-12-01T00:00:00.000Z' },
        soft_threshold_percent: 80,
      },
    },
  ],
})
export type Account = typeof Account.Type

// ---------------------------------------------------------------------------------------------------------
// Envelopes
// ---------------------------------------------------------------------------------------------------------

/** The list envelope around `items`; `name` is its name in the description. */
export const listOf = <S extends Schema.Top>(items: S, name: string, order: string) =>
  Schema.Struct({
    object: constant('list'),
    data: Schema.Array(items).annotate({ description: `The page, ${order}.` }),
    has_more: Schema.Boolean.annotate({ description: 'True when there is something after this page.' }),
    next_cursor: Schema.NullOr(Schema.String).annotate({
      description:
        'What to send as `starting_after` for the next page, now or later: the last id of this page. On an empty page the ' +
        '`starting_after` that was sent, else `null`.',
    }),
  }).annotate({
    identifier: name,
    title: name.replaceAll(/(?<=[a-z])[A-Z]/gu, (letter) => ` ${letter.toLowerCase()}`),
    description: 'A page of a list.',
  })

export const EventList = listOf(Event, 'EventList', 'oldest first')
export type EventList = typeof EventList.Type

export const WebhookEndpointList = listOf(WebhookEndpoint, 'WebhookEndpointList', 'newest first')
export type WebhookEndpointList = typeof WebhookEndpointList.Type

/** The `error` member: in the error envelope, and in a rejected element of a batch. */
export const ErrorDetail = Schema.Struct({
  code: Schema.Literals(ERROR_CODES).annotate({
    description:
      'What went wrong, for programs. New codes may be added: treat an unknown one by its HTTP status.',
  }),
  message: Schema.String.annotate({ description: 'What went wrong and what to do, for people.' }),
  param: Schema.optionalKey(
    Schema.String.annotate({
      description: 'The offending parameter, as a path.',
      examples: ['to', 'messages[3].to', 'variables.code'],
    }),
  ),
  request_id: Schema.String.annotate({
    description: 'The same as in the `Request-Id` header. Tell it to support.',
  }),
  retry_after: Schema.optionalKey(
    atLeast(1).annotate({
      description: 'Whole seconds to wait before a retry. The `Retry-After` header repeats it.',
    }),
  ),
  window: Schema.optionalKey(
    Schema.Literals(FLOOD_WINDOWS).annotate({
      description: 'With `recipient_flood_limited`: the window that tripped first.',
    }),
  ),
  doc_url: Schema.String.annotate({ description: 'Where this code is described.' }),
}).annotate({ identifier: 'ErrorDetail', title: 'Error detail', description: 'What went wrong.' })

export const ErrorBody = Schema.Struct({ error: ErrorDetail }).annotate({
  identifier: 'Error',
  title: 'Error',
  description: 'The body of every answer with a status of 400 or above.',
  examples: [
    {
      error: {
        code: 'recipient_invalid',
        message: 'The number must be in E.164 form: +79 and nine digits, nothing else.',
        param: 'to',
        request_id: 'req_06e9c2v5k4r8x1m7n3p0q2s6tw',
        doc_url: 'https://hub.example.com/docs/errors#recipient_invalid',
      },
    },
  ],
})
export type ErrorBody = typeof ErrorBody.Type
