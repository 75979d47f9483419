/**
 * What goes over the wire: the resources as clients see them. Sources: specification, Resources and their
 * fields; contract decisions, Message, Batch, Templates and senders, Events, Webhook subscription, Account and stats.
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
  SENDER_STATUSES,
  STATUSES,
  SUBSCRIPTION_STATUSES,
  TEMPLATE_STATUSES,
  TEXT_MAX_PARTS,
  UNDELIVERED_REASONS,
  VARIABLE_MAX_LENGTH,
} from '@hub/domain'
import { ERROR_CODES, ERRORS, FLOOD_WINDOWS } from './errors.ts'
import {
  DATE_PATTERN,
  LANGUAGE_PATTERN,
  MAX_CLIENT_REF_LENGTH,
  MAX_LANGUAGE_LENGTH,
  MAX_REGISTRATION_BYTES,
  MAX_SENDER_NAME_LENGTH,
  MAX_TEMPLATE_BODY_LENGTH,
  MAX_URL_LENGTH,
  SENDER_NAME_PATTERN,
  TEMPLATE_NAME_PATTERN,
  TIMESTAMP_PATTERN,
} from './limits.ts'

const AT = '2026-11-21T09:30:00.000Z'
const MESSAGE_ID = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw'
const EARLIER_MESSAGE_ID = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tv'
const BATCH_ID = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tw'
const TEMPLATE_ID = 'tpl_06e9c2v5k4r8x1m7n3p0q2s6tw'
const SENDER_ID = 'snd_06e9c2v5k4r8x1m7n3p0q2s6tw'
const REQUEST_ID = 'req_06e9c2v5k4r8x1m7n3p0q2s6tw'
const DOCS = 'https://hub.example.com/docs/errors'
const ENDPOINT_ID = 'we_06e9c2v5k4r8x1m7n3p0q2s6tw'
const EVENT_ID = 'evt_1m7n3p0q2s6tw06e9c2v5k4r8x'
const EVENT_BATCH_ID = 'evb_2q2s6tw06e9c2v5k4r8x1m7n3p'

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

/** A day in UTC. */
export const Day = Schema.String.check(Schema.isPattern(DATE_PATTERN)).annotate({
  description: 'A day in UTC.',
  examples: ['2026-11-21'],
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

const name = (description: string, example: string) =>
  Schema.String.annotate({ description, examples: [example] })

const ClientRef = Schema.NullOr(Schema.String).annotate({
  description: 'Your own record identifier, as you sent it.',
})

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
      description:
        'Whole seconds to wait before a retry. The `Retry-After` header repeats it, but for an element of a batch.',
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
        request_id: REQUEST_ID,
        doc_url: `${DOCS}#recipient_invalid`,
      },
    },
  ],
})
export type ErrorBody = typeof ErrorBody.Type

// ---------------------------------------------------------------------------------------------------------
// Messages
// ---------------------------------------------------------------------------------------------------------

const ClientRefToSend = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_CLIENT_REF_LENGTH))

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
    ClientRefToSend.annotate({
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

export const MessageList = listOf(Message, 'MessageList', 'oldest first')
export type MessageList = typeof MessageList.Type

// ---------------------------------------------------------------------------------------------------------
// Batches
// ---------------------------------------------------------------------------------------------------------

/** An element of a batch: a send request that has a `client_ref`. */
export const BatchMessage = Schema.Struct({
  ...SendRequest.fields,
  client_ref: ClientRefToSend.annotate({
    description:
      'Your own record identifier, required here. An element whose `client_ref` was used before is a `duplicate`.',
    examples: ['order-1001-code'],
  }),
}).annotate({
  identifier: 'BatchMessage',
  title: 'Message of a batch',
  description: 'A send request that has a `client_ref`.',
})
export type BatchMessage = typeof BatchMessage.Type

/** Body of `POST /v1/messages/batch`. `decodeBatch` is what checks it. */
export const BatchRequest = Schema.Struct({
  messages: Schema.Array(BatchMessage).check(Schema.isMinLength(1)).annotate({
    description:
      'From 1 to `limits.batch_max` of the account, which is 1000 where nothing else was agreed. `GET /v1/account` tells it.',
  }),
}).annotate({
  identifier: 'BatchRequest',
  title: 'Batch to send',
  description: 'Messages to send together. Each gets a result of its own.',
  examples: [
    {
      messages: [
        {
          to: '+79000000001',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1001' },
          client_ref: 'order-1001',
        },
        {
          to: '+79000000002',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1002' },
          client_ref: 'order-1002',
        },
      ],
    },
  ],
})
export type BatchRequest = typeof BatchRequest.Type

export const BatchCounts = Schema.Struct({
  total: atLeast(0).annotate({ description: 'Elements of the request.' }),
  accepted: atLeast(0).annotate({
    description: 'Elements that were accepted, whatever became of them since.',
  }),
  duplicate: atLeast(0).annotate({ description: 'Elements whose `client_ref` was used before.' }),
  rejected: atLeast(0).annotate({
    description: 'Elements that were refused at acceptance, and messages whose status is `rejected`.',
  }),
  delivered: atLeast(0).annotate({ description: 'Messages whose status is `delivered`.' }),
  undelivered: atLeast(0).annotate({ description: 'Messages whose status is `undelivered`.' }),
  expired: atLeast(0).annotate({ description: 'Messages whose status is `expired`.' }),
}).annotate({
  identifier: 'BatchCounts',
  title: 'Counts of a batch',
  description: 'How many elements of a batch came to what.',
})
export type BatchCounts = typeof BatchCounts.Type

const closed = Schema.Boolean.annotate({
  description: 'True once every accepted message is final. `batch.completed` tells it, once.',
})

const batchExample = {
  object: 'batch',
  id: BATCH_ID,
  created_at: AT,
  closed: false,
  counts: { total: 3, accepted: 1, duplicate: 1, rejected: 1, delivered: 0, undelivered: 0, expired: 0 },
} as const

/** Answer to `GET /v1/batches/{id}`, and what `batch.completed` carries. */
export const Batch = Schema.Struct({
  object: constant('batch'),
  id: id('bat_', 'the batch'),
  created_at: moment('When the batch was accepted.'),
  closed,
  counts: BatchCounts,
}).annotate({
  identifier: 'Batch',
  title: 'Batch',
  description: 'What became of the messages that were sent together.',
  examples: [{ ...batchExample, closed: true, counts: { ...batchExample.counts, delivered: 1 } }],
})
export type Batch = typeof Batch.Type

const resultFields = {
  index: atLeast(0).annotate({ description: 'Place of the element in the request, from 0.' }),
}

/** This element is accepted. */
export const BatchResultAccepted = Schema.Struct({
  ...resultFields,
  client_ref: Schema.String.annotate({ description: 'Your own record identifier, as you sent it.' }),
  result: constant('accepted'),
  message: AcceptedMessage,
}).annotate({
  identifier: 'BatchResultAccepted',
  title: 'Accepted element',
  description: 'This element is accepted and lives on as an ordinary message.',
})
export type BatchResultAccepted = typeof BatchResultAccepted.Type

/** The `client_ref` of this element was used before. */
export const BatchResultDuplicate = Schema.Struct({
  ...resultFields,
  client_ref: Schema.String.annotate({ description: 'Your own record identifier, as you sent it.' }),
  result: constant('duplicate'),
  message_id: id('msg_', 'the earlier message with this `client_ref`'),
  message_url: Schema.String.annotate({
    description: 'Path of the earlier message.',
    examples: [`/v1/messages/${EARLIER_MESSAGE_ID}`],
  }),
}).annotate({
  identifier: 'BatchResultDuplicate',
  title: 'Duplicate element',
  description: 'The `client_ref` of this element was used before; nothing was created.',
})
export type BatchResultDuplicate = typeof BatchResultDuplicate.Type

/** This element was refused. */
export const BatchResultRejected = Schema.Struct({
  ...resultFields,
  client_ref: Schema.NullOr(Schema.String).annotate({
    description: 'Your own record identifier; `null` where the element has none that is in the right form.',
  }),
  result: constant('rejected'),
  error: ErrorDetail,
}).annotate({
  identifier: 'BatchResultRejected',
  title: 'Rejected element',
  description: 'This element was refused; the others were not touched by it.',
})
export type BatchResultRejected = typeof BatchResultRejected.Type

/** What became of an element; `result` says which it is. */
export const BatchResult = Schema.Union([BatchResultAccepted, BatchResultDuplicate, BatchResultRejected], {
  mode: 'oneOf',
}).annotate({
  identifier: 'BatchResult',
  title: 'Result of an element',
  description: 'What became of an element; `result` says which of these it is.',
})
export type BatchResult = typeof BatchResult.Type

/** Answer to `POST /v1/messages/batch`. */
export const AcceptedBatch = Schema.Struct({
  object: constant('batch'),
  id: Schema.NullOr(Schema.String).annotate({
    description:
      'Identifier of the batch: `bat_` and opaque characters. Where nothing was accepted and something is a duplicate, no batch ' +
      'is created: then it is the earlier batch that all duplicates share, else `null`.',
  }),
  created_at: Schema.NullOr(Timestamp).annotate({
    description: 'When the batch of `id` was accepted; `null` without one.',
  }),
  closed,
  counts: BatchCounts,
  results: Schema.Array(BatchResult).annotate({
    description: 'One for each element, in the order of the request.',
  }),
}).annotate({
  identifier: 'AcceptedBatch',
  title: 'Accepted batch',
  description: 'What became of each element at acceptance.',
  examples: [
    {
      ...batchExample,
      results: [
        {
          index: 0,
          client_ref: 'order-1001',
          result: 'accepted',
          message: {
            ...acceptedExample,
            class: 'service',
            client_ref: 'order-1001',
            batch: BATCH_ID,
            template: 'order_ready',
          },
        },
        {
          index: 1,
          client_ref: 'order-1000',
          result: 'duplicate',
          message_id: EARLIER_MESSAGE_ID,
          message_url: `/v1/messages/${EARLIER_MESSAGE_ID}`,
        },
        {
          index: 2,
          client_ref: 'order-1002',
          result: 'rejected',
          error: {
            code: 'recipient_invalid',
            message: ERRORS.recipient_invalid.message,
            param: 'messages[2].to',
            request_id: REQUEST_ID,
            doc_url: `${DOCS}#recipient_invalid`,
          },
        },
      ],
    },
  ],
})
export type AcceptedBatch = typeof AcceptedBatch.Type

// ---------------------------------------------------------------------------------------------------------
// Estimates
// ---------------------------------------------------------------------------------------------------------

/** The second form of the body of `POST /v1/messages/estimate`. `decodeEstimate` is what checks both. */
export const EstimateBatchRequest = Schema.Struct({
  messages: Schema.Array(SendRequest).check(Schema.isMinLength(1)).annotate({
    description: 'From 1 to `limits.batch_max` of the account. A `client_ref` is not needed.',
  }),
}).annotate({
  identifier: 'EstimateBatchRequest',
  title: 'Batch to estimate',
  description: 'Messages to estimate together.',
  examples: [
    {
      messages: [
        {
          to: '+79000000001',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1001' },
        },
        { to: '+79000000002', class: 'service', template: 'order_ready' },
      ],
    },
  ],
})
export type EstimateBatchRequest = typeof EstimateBatchRequest.Type

/** Body of `POST /v1/messages/estimate`. */
export const EstimateRequest = Schema.Union([SendRequest, EstimateBatchRequest]).annotate({
  identifier: 'EstimateRequest',
  title: 'Estimate request',
  description: 'The body of a send, or `messages` with several of them.',
})
export type EstimateRequest = typeof EstimateRequest.Type

const encoding = Schema.Literals(['gsm7', 'ucs2']).annotate({
  description:
    '`gsm7` where every character is in GSM 03.38 (160 in a single part, 153 in each of several), else `ucs2` (70 and 67).',
})
const characters = atLeast(0).annotate({
  description:
    'Length of the text: septets for `gsm7`, where characters of the extension table are two; UTF-16 code units for `ucs2`.',
})
const parts = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: TEXT_MAX_PARTS })).annotate({
  description: 'Number of SMS parts.',
})
const estimateFields = {
  encoding,
  characters,
  parts,
  price: Money.annotate({
    description: 'Parts at the price of the class, in both modes. In test mode nothing is charged for it.',
  }),
}

/** Answer to an estimate of one message. */
export const Estimate = Schema.Struct({ object: constant('estimate'), ...estimateFields }).annotate({
  identifier: 'Estimate',
  title: 'Estimate',
  description: 'What a message would take.',
  examples: [
    {
      object: 'estimate',
      encoding: 'ucs2',
      characters: 16,
      parts: 1,
      price: { amount: '2.00', currency: 'RUB' },
    },
  ],
})
export type Estimate = typeof Estimate.Type

export const EstimateResultGood = Schema.Struct({ ...resultFields, ...estimateFields }).annotate({
  identifier: 'EstimateResultGood',
  title: 'Estimated element',
  description: 'What this element would take.',
})
export type EstimateResultGood = typeof EstimateResultGood.Type

export const EstimateResultRejected = Schema.Struct({ ...resultFields, error: ErrorDetail }).annotate({
  identifier: 'EstimateResultRejected',
  title: 'Element without an estimate',
  description: 'Why this element would be refused.',
})
export type EstimateResultRejected = typeof EstimateResultRejected.Type

/** Answer to an estimate of several messages. */
export const EstimateBatch = Schema.Struct({
  object: constant('estimate'),
  data: Schema.Array(Schema.Union([EstimateResultGood, EstimateResultRejected], { mode: 'oneOf' })).annotate({
    description:
      'One for each element, in the order of the request; with an `error` where there is no estimate.',
  }),
  totals: Schema.Struct({
    parts: atLeast(0).annotate({ description: 'Parts of all elements without an error.' }),
    price: Money.annotate({ description: 'Price of all elements without an error.' }),
  }).annotate({ description: 'The sum of the elements without an error.' }),
}).annotate({
  identifier: 'EstimateBatch',
  title: 'Estimate of several messages',
  description: 'What several messages would take.',
  examples: [
    {
      object: 'estimate',
      data: [
        {
          index: 0,
          encoding: 'ucs2',
          characters: 16,
          parts: 1,
          price: { amount: '2.00', currency: 'RUB' },
        },
        {
          index: 1,
          error: {
            code: 'template_variable_missing',
            message: ERRORS.template_variable_missing.message,
            param: 'messages[1].variables.order',
            request_id: REQUEST_ID,
            doc_url: `${DOCS}#template_variable_missing`,
          },
        },
      ],
      totals: { parts: 1, price: { amount: '2.00', currency: 'RUB' } },
    },
  ],
})
export type EstimateBatch = typeof EstimateBatch.Type

// ---------------------------------------------------------------------------------------------------------
// Templates and senders
// ---------------------------------------------------------------------------------------------------------

/** Body of `POST /v1/templates`. `decodeTemplateCreate` is what checks it. */
export const TemplateCreate = Schema.Struct({
  name: Schema.String.check(Schema.isPattern(TEMPLATE_NAME_PATTERN)).annotate({
    description: 'Name that sends refer to, unique in the account and mode.',
    examples: ['order_ready'],
  }),
  class: MessageClass,
  sender: Schema.String.annotate({
    description: 'Name of a sender of the account. It may still wait for its registration.',
    examples: ['HUB'],
  }),
  body: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_TEMPLATE_BODY_LENGTH)).annotate({
    description:
      'The text, with placeholders as `{{name}}`: a letter or underscore, then letters, digits or underscores, at most 64; ' +
      'spaces inside the braces are ignored. No control characters but line feed.',
    examples: ['Заказ {{order}} готов'],
  }),
  language: Schema.optionalKey(
    Schema.String.check(Schema.isMaxLength(MAX_LANGUAGE_LENGTH), Schema.isPattern(LANGUAGE_PATTERN)).annotate(
      {
        description: 'Language of the text, as a BCP 47 tag. It is for moderators and changes nothing.',
        examples: ['ru'],
      },
    ),
  ),
}).annotate({
  identifier: 'TemplateCreate',
  title: 'Template to create',
  description: 'A template to create. It goes to moderation; in test mode it is approved at once.',
  examples: [
    {
      name: 'order_ready',
      class: 'service',
      sender: 'HUB',
      body: 'Заказ {{order}} готов',
      language: 'ru',
    },
  ],
})
export type TemplateCreate = typeof TemplateCreate.Type

export const Template = Schema.Struct({
  id: id('tpl_', 'the template'),
  object: constant('template'),
  name: name('Name that sends refer to.', 'order_ready'),
  class: MessageClass,
  sender: name('Name that recipients see.', 'HUB'),
  body: name('The text with its placeholders.', 'Заказ {{order}} готов'),
  language: Schema.NullOr(Schema.String).annotate({
    description: 'Language of the text, as it was given; else `null`.',
  }),
  status: Schema.Literals(TEMPLATE_STATUSES).annotate({
    description: '`pending_moderation` until moderators have looked at it, then `approved` or `declined`.',
  }),
  reason: Schema.NullOr(Schema.String).annotate({
    description: 'Why the template was declined; `null` otherwise.',
  }),
  created_at: moment('When the template was created.'),
  mode: Mode,
}).annotate({
  identifier: 'Template',
  title: 'Template',
  description: 'A text that may be sent, with places for variables.',
  examples: [
    {
      id: TEMPLATE_ID,
      object: 'template',
      name: 'order_ready',
      class: 'service',
      sender: 'HUB',
      body: 'Заказ {{order}} готов',
      language: 'ru',
      status: 'approved',
      reason: null,
      created_at: AT,
      mode: 'live',
    },
  ],
})
export type Template = typeof Template.Type

export const TemplateList = listOf(Template, 'TemplateList', 'newest first')
export type TemplateList = typeof TemplateList.Type

/** Body of `POST /v1/templates/{id}/render`. `decodeRender` is what checks it. */
export const RenderRequest = Schema.Struct({
  variables: SendRequest.fields.variables,
}).annotate({
  identifier: 'RenderRequest',
  title: 'Values to render',
  description: 'Values for a preview, under the same rules as those of a send.',
  examples: [{ variables: { order: '1001' } }],
})
export type RenderRequest = typeof RenderRequest.Type

/** Answer to `POST /v1/templates/{id}/render`. */
export const RenderedText = Schema.Struct({
  text: name('The text as it would be sent.', 'Заказ 1001 готов'),
  encoding,
  parts,
  characters,
}).annotate({
  identifier: 'RenderedText',
  title: 'Rendered text',
  description: 'A preview of a template with its part count.',
  examples: [{ text: 'Заказ 1001 готов', encoding: 'ucs2', parts: 1, characters: 16 }],
})
export type RenderedText = typeof RenderedText.Type

const registrationExample = { legal_name: 'ООО «Магазин»', inn: '7700000000' }

/** Body of `POST /v1/senders`. `decodeSenderCreate` is what checks it. */
export const SenderCreate = Schema.Struct({
  name: Schema.String.check(
    Schema.isMinLength(1),
    Schema.isMaxLength(MAX_SENDER_NAME_LENGTH),
    Schema.isPattern(SENDER_NAME_PATTERN),
  ).annotate({
    description:
      'Name that recipients will see, unique in the account and mode: letters of GSM 03.38, digits, space, ".", "-" and "_", ' +
      'at least one letter.',
    examples: ['HUB'],
  }),
  registration: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Json).annotate({
      description: `What the operator wants to know for the registration, in a form of your own; at most ${MAX_REGISTRATION_BYTES / 1024} KiB as JSON.`,
      examples: [registrationExample],
    }),
  ),
}).annotate({
  identifier: 'SenderCreate',
  title: 'Sender to create',
  description: 'A sender to register with the operator; in test mode it is registered at once.',
  examples: [{ name: 'HUB', registration: registrationExample }],
})
export type SenderCreate = typeof SenderCreate.Type

export const Sender = Schema.Struct({
  id: id('snd_', 'the sender'),
  object: constant('sender'),
  name: name('Name that recipients see.', 'HUB'),
  registration: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)).annotate({
    description: 'What was given for the registration; `null` where nothing was.',
  }),
  status: Schema.Literals(SENDER_STATUSES).annotate({
    description: '`pending` until the operator has answered, then `registered` or `declined`.',
  }),
  reason: Schema.NullOr(Schema.String).annotate({
    description: 'Why the sender was declined; `null` otherwise.',
  }),
  created_at: moment('When the sender was created.'),
  mode: Mode,
}).annotate({
  identifier: 'Sender',
  title: 'Sender',
  description: 'A name under which messages are sent.',
  examples: [
    {
      id: SENDER_ID,
      object: 'sender',
      name: 'HUB',
      registration: registrationExample,
      status: 'registered',
      reason: null,
      created_at: AT,
      mode: 'live',
    },
  ],
})
export type Sender = typeof Sender.Type

export const SenderList = listOf(Sender, 'SenderList', 'newest first')
export type SenderList = typeof SenderList.Type

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
        'The resource as it was; its `object` says which. For `message.*` it is a message snapshot, for `batch.*` a batch, for ' +
        '`template.*` a template, for `sender.*` a sender, for `webhook.*` a subscription and for ' +
        '`account.spend_threshold` the account.',
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

export const EventList = listOf(Event, 'EventList', 'oldest first')
export type EventList = typeof EventList.Type

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

/** Answer to a deletion. */
export const DeletedWebhookEndpoint = Schema.Struct({
  id: webhookEndpointFields.id,
  object: webhookEndpointFields.object,
  deleted: Schema.Literal(true).annotate({ description: 'Always `true`.' }),
}).annotate({
  identifier: 'DeletedWebhookEndpoint',
  title: 'Deleted webhook endpoint',
  description: 'A subscription that is gone, and its backlog with it.',
  examples: [{ id: ENDPOINT_ID, object: 'webhook_endpoint', deleted: true }],
})
export type DeletedWebhookEndpoint = typeof DeletedWebhookEndpoint.Type

export const DELIVERY_STATUSES = ['succeeded', 'failed'] as const

/** What happened to an attempt that failed, or to a batch that was given up. */
export const DELIVERY_REASONS = [
  'http_status',
  'timeout',
  'connection_refused',
  'connection_reset',
  'tls_error',
  'address_not_public',
  'redirect',
  'dns_error',
  'retry_window_expired',
  'retry_window_expired_while_disabled',
] as const
export type DeliveryReason = (typeof DELIVERY_REASONS)[number]

export const WebhookDelivery = Schema.Struct({
  id: id('whd_', 'the attempt'),
  object: constant('webhook_delivery'),
  event_batch: Schema.String.annotate({
    description: 'The batch of events: the `Hub-Event-Id` of the request, the same for each attempt at it.',
    examples: [EVENT_BATCH_ID],
  }),
  event_ids: Schema.Array(Schema.String).annotate({ description: 'The events of the batch, in its order.' }),
  attempt: atLeast(0).annotate({
    description: 'Which attempt at the batch it was. A batch that was given up before any has 0.',
  }),
  status: Schema.Literals(DELIVERY_STATUSES).annotate({
    description: '`succeeded` when the receiver answered with 2xx within 10 seconds.',
  }),
  response_code: Schema.NullOr(Schema.Int).annotate({
    description: 'The status that the receiver answered with; `null` when none came.',
  }),
  duration_ms: atLeast(0).annotate({
    description: 'Until the answer, or until the attempt was given up, in milliseconds.',
  }),
  reason: Schema.NullOr(Schema.Literals(DELIVERY_REASONS)).annotate({
    description:
      'Why it failed; `null` when it succeeded. The window is the 24 hours in which a batch is retried.',
  }),
  trial: Schema.Boolean.annotate({ description: 'True for what `POST …/test` delivered.' }),
  redelivery: Schema.Boolean.annotate({
    description:
      'True for what was delivered once more for a period, because the operator of the hub was asked to. The events have the ids they had.',
  }),
  created_at: moment('When the attempt began.'),
  next_attempt_at: Schema.NullOr(Timestamp).annotate({
    description: 'When the batch is tried again; `null` when it is not, as far as is known.',
  }),
}).annotate({
  identifier: 'WebhookDelivery',
  title: 'Webhook delivery',
  description: 'An attempt to deliver a batch of events.',
  examples: [
    {
      id: 'whd_06e9c2v5k4r8x1m7n3p0q2s6tw',
      object: 'webhook_delivery',
      event_batch: EVENT_BATCH_ID,
      event_ids: [EVENT_ID],
      attempt: 2,
      status: 'failed',
      response_code: 503,
      duration_ms: 41,
      reason: 'http_status',
      trial: false,
      redelivery: false,
      created_at: '2026-11-21T09:31:02.480Z',
      next_attempt_at: '2026-11-21T09:33:04.116Z',
    },
  ],
})
export type WebhookDelivery = typeof WebhookDelivery.Type

export const WebhookDeliveryList = listOf(WebhookDelivery, 'WebhookDeliveryList', 'newest first')
export type WebhookDeliveryList = typeof WebhookDeliveryList.Type

export const WebhookEndpointList = listOf(WebhookEndpoint, 'WebhookEndpointList', 'newest first')
export type WebhookEndpointList = typeof WebhookEndpointList.Type

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
// Stats
// ---------------------------------------------------------------------------------------------------------

/** What the rows of a summary can be. */
export const STATS_GROUPS = ['day', 'class', 'template'] as const
export type StatsGroup = (typeof STATS_GROUPS)[number]

const countFields = {
  accepted: atLeast(0).annotate({ description: 'All messages that were accepted.' }),
  sent: atLeast(0).annotate({ description: 'Those that were ever handed to the operator.' }),
  delivered: atLeast(0).annotate({ description: 'Those whose status is `delivered` now.' }),
  undelivered: atLeast(0).annotate({ description: 'Those whose status is `undelivered` now.' }),
  rejected: atLeast(0).annotate({ description: 'Those whose status is `rejected` now.' }),
  expired: atLeast(0).annotate({ description: 'Those whose status is `expired` now.' }),
  parts: atLeast(0).annotate({ description: 'SMS parts of all of them.' }),
  price: Money.annotate({ description: 'What was charged for all of them.' }),
}

/** The counts of a period. */
export const StatsCounts = Schema.Struct(countFields).annotate({
  identifier: 'StatsCounts',
  title: 'Counts of a summary',
  description: 'Counts over messages that were accepted on certain days.',
})
export type StatsCounts = typeof StatsCounts.Type

/** A row of a summary. Of `day`, `class` and `template` it has the one that was asked for. */
export const StatsRow = Schema.Struct({
  day: Schema.optionalKey(
    Day.annotate({ description: 'With `group_by=day`: the day of acceptance, in UTC.' }),
  ),
  class: Schema.optionalKey(
    Schema.Literals(MESSAGE_CLASSES).annotate({ description: 'With `group_by=class`: the traffic class.' }),
  ),
  template: Schema.optionalKey(
    Schema.String.annotate({ description: 'With `group_by=template`: name of the template.' }),
  ),
  ...countFields,
}).annotate({
  identifier: 'StatsRow',
  title: 'Row of a summary',
  description: 'The counts of a day, a class or a template.',
})
export type StatsRow = typeof StatsRow.Type

const countsExample = {
  accepted: 120,
  sent: 119,
  delivered: 110,
  undelivered: 6,
  rejected: 1,
  expired: 1,
  parts: 131,
  price: { amount: '260.00', currency: 'RUB' },
} as const

/** Answer to `GET /v1/stats`. */
export const Stats = Schema.Struct({
  object: constant('stats'),
  from: Day.annotate({ description: 'First day of the period, in UTC.' }),
  to: Day.annotate({ description: 'Last day of the period, in UTC; it is included.' }),
  totals: StatsCounts,
  data: Schema.Array(StatsRow).annotate({
    description: 'A row for each day, class or template that has messages; empty without `group_by`.',
  }),
}).annotate({
  identifier: 'Stats',
  title: 'Stats',
  description: 'A summary of the messages that were accepted in a period.',
  examples: [
    {
      object: 'stats',
      from: '2026-11-01',
      to: '2026-11-21',
      totals: countsExample,
      data: [{ class: 'service', ...countsExample }],
    },
  ],
})
export type Stats = typeof Stats.Type
