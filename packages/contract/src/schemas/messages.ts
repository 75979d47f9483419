/** Sends and messages. Source: docs/contract/messages.md. */
import { RECIPIENT_NUMBER_PATTERN, VARIABLE_MAX_LENGTH } from '@hub/domain'
import { Schema } from 'effect'
import { MIN_TTL_SECONDS, TEMPLATE_NAME_PATTERN } from '../limits.ts'
import { listOf, MessageClass } from './common.ts'
import { AT, atLeast, ClientRefToSend } from './fields.ts'
import { acceptedExample, messageFields } from './message-fields.ts'

/** Body of `POST /v1/messages`. `decodeSendRequest` checks it. */
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
        'Your own record identifier. A second send with the same one creates nothing and answers with the earlier message. ' +
        'It must not contain personal data: it is stored for three years and is not erased with a recipient.',
      examples: ['order-1001-code'],
    }),
  ),
  ttl_seconds: Schema.optionalKey(
    atLeast(MIN_TTL_SECONDS).annotate({
      description:
        'A shorter lifetime: if the hub could not submit the message by then, it expires with `ttl_expired_before_submit`. At most ' +
        'the lifetime of the class, which is 300 for `otp` and 86400 for `service` unless hub staff have changed it.',
      examples: [120],
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

/** Response of `POST /v1/messages`: the message without text and variables. */
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

/** Response of `GET /v1/messages/{id}`. */
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
