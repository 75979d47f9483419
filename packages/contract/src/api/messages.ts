/** Operations of messages. Source: docs/contract/messages.md. */
import { Schema } from 'effect'
import { HttpApiSchema } from 'effect/http-api'
import type { ErrorCode } from '../errors.ts'
import { LONG_LIST_LIMITS } from '../limits.ts'
import { AcceptedBatch, BatchRequest } from '../schemas/batches.ts'
import { Estimate, EstimateBatch, EstimateRequest } from '../schemas/estimates.ts'
import { MessageClass, MessageStatus, TimestampToSend } from '../schemas/common.ts'
import { BATCH_ID } from '../schemas/fields.ts'
import { AcceptedMessage, Message, MessageList, SendRequest } from '../schemas/messages.ts'
import { RENDER_REFUSALS, get, idParam, pageQuery, post, resource } from './operation.ts'

/** The errors of a send, in addition to those of every POST. */
export const SEND_CODES: ReadonlyArray<ErrorCode> = [
  'send_at_not_supported',
  'recipient_invalid',
  'template_not_found',
  'template_declined',
  'template_not_approved',
  'template_class_mismatch',
  'sender_not_registered',
  ...RENDER_REFUSALS,
  'recipient_range_blocked',
  'recipient_opted_out',
  'hub_daily_limit_reached',
  'recipient_flood_limited',
  'spend_limit_reached',
  'provider_unavailable',
]

export const MessagesGroup = resource(
  'messages',
  'Messages',
  'Sending, and what became of it.',
  post('send', '/v1/messages', {
    scope: 'send',
    summary: 'Send a message',
    description:
      'Accepts one message. 202 means that the service answers for it, not that it was delivered: that is told later, by ' +
      'events and by the status. A repeat with a used `client_ref` creates nothing and answers with the earlier message. After ' +
      'a 5xx nothing is sent, unless the error has `"outcome": "unknown"`. The answer takes up to 3 seconds.',
    answer:
      'The message is accepted. With `duplicate: true` it is an earlier one with the same `client_ref`.',
    codes: SEND_CODES,
    payload: SendRequest,
    success: AcceptedMessage.pipe(HttpApiSchema.status(202)),
  }),
  get('list', '/v1/messages', {
    summary: 'List messages',
    description:
      'The accepted messages as they stand now: those of a `batch` in the order of acceptance, the one with a `client_ref`, or ' +
      'the newest ones, newest first. `status`, `class`, `template`, `created_after` and `created_before` filter the newest ones ' +
      'and may be combined with each other. A batch of another account or mode is `not_found`. There is no search by number.',
    answer: 'A page of messages.',
    codes: ['invalid_parameter', 'not_found'],
    query: {
      batch: Schema.optionalKey(
        Schema.String.annotate({
          description: 'Identifier of a batch: `bat_` and opaque characters. Not with other filters.',
          examples: [BATCH_ID],
        }),
      ),
      client_ref: Schema.optionalKey(
        Schema.String.annotate({
          description: 'Your own record identifier, as it was sent. Not with other filters.',
          examples: ['order-1001-code'],
        }),
      ),
      status: Schema.optionalKey(
        MessageStatus.annotate({
          description: 'Only messages with this status now.',
          examples: ['undelivered'],
        }),
      ),
      class: Schema.optionalKey(
        MessageClass.annotate({ description: 'Only messages of this class.', examples: ['otp'] }),
      ),
      template: Schema.optionalKey(
        Schema.String.annotate({
          description: 'Only messages of the template with this name.',
          examples: ['order_ready'],
        }),
      ),
      created_after: Schema.optionalKey(
        TimestampToSend.annotate({
          description: 'Only messages that were accepted after this moment, strictly.',
        }),
      ),
      created_before: Schema.optionalKey(
        TimestampToSend.annotate({
          description: 'Only messages that were accepted before this moment, strictly.',
        }),
      ),
      ...pageQuery(LONG_LIST_LIMITS),
    },
    success: MessageList,
  }),
  post('sendBatch', '/v1/messages/batch', {
    scope: 'send',
    summary: 'Send a batch',
    description:
      'Accepts many messages at once. Each element gets a result of its own, in the order of the request: `accepted`, `duplicate` ' +
      '(its `client_ref` was used before; nothing was created) or `rejected`, with an error object as of a single send. The whole ' +
      'request is refused only where `messages` itself is not in order. An `otp` element that was rejected with ' +
      '`provider_unavailable` is accepted by a repeat of the batch with the same `Idempotency-Key`. After a 5xx nothing is sent, ' +
      'unless the error has `"outcome": "unknown"`. The answer takes up to 10 seconds. `batch.completed` is sent once, when all ' +
      'messages are final.',
    answer: 'The result of each element. Rejected elements do not make it a failure.',
    codes: ['send_at_not_supported', 'batch_too_large', 'hub_daily_limit_reached'],
    payload: BatchRequest,
    success: AcceptedBatch.pipe(HttpApiSchema.status(202)),
  }),
  post('estimate', '/v1/messages/estimate', {
    scope: 'send',
    summary: 'Estimate parts and price',
    description:
      'Counts and prices the text before it is sent: one send request, or `messages` with several, each with a result of its own. ' +
      'It looks at the form, the template and the variables only and creates nothing. A text in Cyrillic fits 70 characters in ' +
      'a part, one in Latin 160.',
    answer: 'The estimate, in the form that was asked for.',
    codes: [
      'send_at_not_supported',
      'batch_too_large',
      'recipient_invalid',
      'template_not_found',
      'template_declined',
      'template_not_approved',
      'template_class_mismatch',
      ...RENDER_REFUSALS,
    ],
    payload: EstimateRequest,
    success: Schema.Union([Estimate, EstimateBatch], { mode: 'oneOf' }),
  }),
  get('read', '/v1/messages/:id', {
    summary: 'Read a message',
    description:
      'The message as it stands now; it can be read as soon as its 202 was received. A message of another account or mode, ' +
      'and one older than three years, is `not_found`.',
    answer: 'The message.',
    codes: ['not_found'],
    params: idParam('the message'),
    success: Message,
  }),
)
