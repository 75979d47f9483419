/** Senders: the names that recipients see, and their registration with the SMS operator. */
import { moderateSender, SENDER_STATUSES, senderDecided } from '@hub/domain'
import { CommandSenders } from '@hub/store'
import { Effect, Schema } from 'effect'
import { Mode, publicId, Timestamp } from './fields.ts'
import {
  commonFields,
  Decision,
  declineInput,
  idInput,
  listInput,
  moderated,
  QueueInput,
  waitingFields,
} from './moderation.ts'
import { listOf } from './pages.ts'
import { defineUseCase } from './use-case.ts'

export const Sender = Schema.Struct({
  id: publicId('snd'),
  object: Schema.Literal('sender'),
  account: publicId('acc'),
  mode: Mode,
  name: Schema.String,
  /** What the SMS operator requires for a registration. */
  registration: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
  status: Schema.Literals(SENDER_STATUSES),
  /** Of a declined sender. */
  reason: Schema.NullOr(Schema.String),
  created_at: Timestamp,
})
export type Sender = typeof Sender.Type

/** A sender that waits for its registration. */
export const WaitingSender = Schema.Struct({ ...Sender.fields, ...waitingFields })
/** A sender with its last decision. */
export const SenderDetails = Schema.Struct({ ...Sender.fields, decision: Decision })

const toValue = (row: CommandSenders.SenderRow): Sender => ({
  ...commonFields('sender', 'snd', row),
  registration: row.registration,
  status: row.status,
  reason: row.reason,
  created_at: row.created_at.toISOString(),
})

const moderation = moderated({
  kind: 'sender',
  prefix: 'snd',
  waiting: 'pending',
  table: CommandSenders,
  moderate: moderateSender,
  event: senderDecided,
  toValue,
})

/** The live senders that wait for their registration, oldest first. */
export const queue = defineUseCase({
  name: 'senders queue',
  permission: 'moderation.read',
  members: 'named',
  input: QueueInput,
  output: listOf(WaitingSender),
  audit: null,
  run: moderation.queue,
})

/** Senders, oldest first. */
export const list = defineUseCase({
  name: 'senders list',
  permission: 'moderation.read',
  members: 'named',
  input: listInput(SENDER_STATUSES),
  output: listOf(Sender),
  audit: null,
  run: moderation.list,
})

export const get = defineUseCase({
  name: 'senders show',
  permission: 'moderation.read',
  members: 'named',
  input: idInput('snd'),
  output: SenderDetails,
  audit: null,
  run: ({ id }) => Effect.map(moderation.get(id), ({ decision, row }) => ({ ...toValue(row), decision })),
})

/** Records that the SMS operator has registered a sender. It may replace an earlier refusal. */
export const approve = defineUseCase({
  name: 'senders approve',
  permission: 'moderation.decide',
  input: idInput('snd'),
  output: Sender,
  audit: ({ id }) => ({ sender: id }),
  result: ({ status }) => ({ status }),
  run: ({ id }) => moderation.decide(id, { approved: true }),
})

/** Records that the SMS operator has declined a sender. It may replace an earlier registration. */
export const decline = defineUseCase({
  name: 'senders decline',
  permission: 'moderation.decide',
  input: declineInput('snd'),
  output: Sender,
  audit: ({ id, reason }) => ({ sender: id, reason }),
  result: ({ status }) => ({ status }),
  run: ({ id, reason }) => moderation.decide(id, { approved: false, reason }),
})
