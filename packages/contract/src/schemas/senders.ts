/** Senders. Source: docs/contract/senders.md. */
import { SENDER_STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import { MAX_REGISTRATION_BYTES, MAX_SENDER_NAME_LENGTH, SENDER_NAME_PATTERN } from '../limits.ts'
import { listOf, Mode, moment } from './common.ts'
import { AT, constant, id, name, SENDER_ID } from './fields.ts'

const registrationExample = { legal_name: 'ООО «Магазин»', inn: '7700000000' }

/** Body of `POST /v1/senders`. `decodeSenderCreate` checks it. */
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

/** Response of `DELETE /v1/senders/{id}`. */
export const DeletedSender = Schema.Struct({
  id: id('snd_', 'the sender'),
  object: constant('sender'),
  deleted: constant(true),
}).annotate({
  identifier: 'DeletedSender',
  title: 'Deleted sender',
  description: 'Says that the sender is gone.',
  examples: [{ id: SENDER_ID, object: 'sender', deleted: true }],
})
export type DeletedSender = typeof DeletedSender.Type

export const SenderList = listOf(Sender, 'SenderList', 'newest first')
