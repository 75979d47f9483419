/** Templates: the moderation queue, and the decisions of the SMS operator. */
import {
  MESSAGE_CLASSES,
  moderateTemplate,
  SENDER_STATUSES,
  TEMPLATE_STATUSES,
  templateDecided,
} from '@hub/domain'
import { CommandTemplates } from '@hub/store'
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
import { Preview, previewOf } from './preview.ts'
import { defineUseCase } from './use-case.ts'

export const Template = Schema.Struct({
  id: publicId('tpl'),
  object: Schema.Literal('template'),
  account: publicId('acc'),
  mode: Mode,
  name: Schema.String,
  class: Schema.Literals(MESSAGE_CLASSES),
  /** The name of the sender. */
  sender: Schema.String,
  body: Schema.String,
  language: Schema.NullOr(Schema.String),
  status: Schema.Literals(TEMPLATE_STATUSES),
  /** Of a declined template. */
  reason: Schema.NullOr(Schema.String),
  created_at: Timestamp,
})
export type Template = typeof Template.Type

const preview = Schema.NullOr(Preview).annotate({ description: '`null`: the body cannot be rendered.' })

/** A template with the status of its sender. Sends need both. */
export const TemplateDetails = Schema.Struct({
  ...Template.fields,
  sender_status: Schema.Literals(SENDER_STATUSES),
  preview,
  decision: Decision,
})

/** A template that waits for a decision, with its preview. */
export const WaitingTemplate = Schema.Struct({ ...Template.fields, ...waitingFields, preview })

const toValue = (row: CommandTemplates.TemplateRow): Template => ({
  ...commonFields('template', 'tpl', row),
  class: row.class,
  sender: row.sender,
  body: row.body,
  language: row.language,
  status: row.status,
  reason: row.reason,
  created_at: row.created_at.toISOString(),
})

const moderation = moderated({
  kind: 'template',
  prefix: 'tpl',
  waiting: 'pending_moderation',
  table: CommandTemplates,
  moderate: moderateTemplate,
  event: templateDecided,
  toValue,
})

/** The live templates that wait for a decision, oldest first. */
export const queue = defineUseCase({
  name: 'templates queue',
  permission: 'moderation.read',
  members: 'named',
  input: QueueInput,
  output: listOf(WaitingTemplate),
  audit: null,
  run: (page) =>
    Effect.map(moderation.queue(page), (found) => ({
      ...found,
      data: found.data.map((template) => ({ ...template, preview: previewOf(template.body) })),
    })),
})

/** Templates, oldest first. */
export const list = defineUseCase({
  name: 'templates list',
  permission: 'moderation.read',
  members: 'named',
  input: listInput(TEMPLATE_STATUSES),
  output: listOf(Template),
  audit: null,
  run: moderation.list,
})

export const get = defineUseCase({
  name: 'templates show',
  permission: 'moderation.read',
  members: 'named',
  input: idInput('tpl'),
  output: TemplateDetails,
  audit: null,
  run: ({ id }) =>
    Effect.map(moderation.get(id), ({ decision, row }) => ({
      ...toValue(row),
      sender_status: row.sender_status,
      preview: previewOf(row.body),
      decision,
    })),
})

/** Records that the SMS operator has approved a template. It may replace an earlier refusal. */
export const approve = defineUseCase({
  name: 'templates approve',
  permission: 'moderation.decide',
  input: idInput('tpl'),
  output: Template,
  audit: ({ id }) => ({ template: id }),
  result: ({ status }) => ({ status }),
  run: ({ id }) => moderation.decide(id, { approved: true }),
})

/** Records that the SMS operator has declined a template. It may replace an earlier approval. */
export const decline = defineUseCase({
  name: 'templates decline',
  permission: 'moderation.decide',
  input: declineInput('tpl'),
  output: Template,
  audit: ({ id, reason }) => ({ template: id, reason }),
  result: ({ status }) => ({ status }),
  run: ({ id, reason }) => moderation.decide(id, { approved: false, reason }),
})
