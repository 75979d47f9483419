/** Templates and their preview. Source: docs/contract/templates.md. */
import { TEMPLATE_STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import {
  LANGUAGE_PATTERN,
  MAX_LANGUAGE_LENGTH,
  MAX_TEMPLATE_BODY_LENGTH,
  TEMPLATE_NAME_PATTERN,
} from '../limits.ts'
import { listOf, MessageClass, Mode, moment } from './common.ts'
import { AT, characters, constant, encoding, id, name, parts, TEMPLATE_ID } from './fields.ts'
import { SendRequest } from './messages.ts'

/** Body of `POST /v1/templates`. `decodeTemplateCreate` checks it. */
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

export const Template = Schema.Struct({
  id: id('tpl_', 'the template'),
  object: constant('template'),
  name: name('Name that sends refer to.', 'order_ready'),
  class: MessageClass,
  sender: name('Name that recipients see.', 'HUB'),
  body: name('The text with its placeholders.', 'Заказ {{order}} готов'),
  placeholders: Schema.Array(Schema.String).annotate({
    description: 'The names of the placeholders, each once, in the order of the text.',
    examples: [['order']],
  }),
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
      placeholders: ['order'],
      language: 'ru',
      status: 'approved',
      reason: null,
      created_at: AT,
      mode: 'live',
    },
  ],
})
export type Template = typeof Template.Type

/** Response of `DELETE /v1/templates/{id}`. */
export const DeletedTemplate = Schema.Struct({
  id: id('tpl_', 'the template'),
  object: constant('template'),
  deleted: constant(true),
}).annotate({
  identifier: 'DeletedTemplate',
  title: 'Deleted template',
  description: 'Says that the template is gone.',
  examples: [{ id: TEMPLATE_ID, object: 'template', deleted: true }],
})
export type DeletedTemplate = typeof DeletedTemplate.Type

export const TemplateList = listOf(Template, 'TemplateList', 'newest first')

/** Body of `POST /v1/templates/{id}/render`. `decodeRender` checks it. */
export const RenderRequest = Schema.Struct({
  variables: SendRequest.fields.variables,
}).annotate({
  identifier: 'RenderRequest',
  title: 'Values to render',
  description: 'Values for a preview, under the same rules as those of a send.',
  examples: [{ variables: { order: '1001' } }],
})

/** Response of `POST /v1/templates/{id}/render`. */
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
