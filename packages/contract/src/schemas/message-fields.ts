/** The fields of a message that sends, reads and events share. */
import { Schema } from 'effect'
import { MessageClass, MessageStatus, Mode, moment, Money, ReasonCode } from './common.ts'
import { anyId, AT, atLeast, ClientRef, constant, id, MESSAGE_ID } from './fields.ts'

export const StatusChange = Schema.Struct({
  status: MessageStatus,
  reason_code: ReasonCode,
  at: moment('When the status was reached.'),
}).annotate({ identifier: 'StatusChange', title: 'Status change', description: 'One change of status.' })

export const messageFields = {
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
  batch: Schema.NullOr(anyId('bat_')).annotate({
    description: 'Identifier of the batch that the message came in; `null` for a single send.',
  }),
  template: Schema.String.annotate({ description: 'Name of the template.', examples: ['otp_code'] }),
  sender: Schema.String.annotate({ description: 'Name that the recipient sees.', examples: ['HUB'] }),
  attempts: atLeast(0).annotate({
    description:
      'How often a request to send the message left the hub for the operator, for all parts together. Waiting for the ' +
      'operator does not count. A request whose answer was lost counts.',
  }),
  parts: atLeast(1).annotate({
    description: 'Number of SMS parts.',
  }),
  price: Money.annotate({ description: 'What was charged: zero when the message was not billed.' }),
  history: Schema.Array(StatusChange).annotate({ description: 'Every status so far, in order.' }),
  mode: Mode,
}

export const acceptedExample = {
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
