/** Operations of templates. Source: docs/contract/templates.md. */
import { TEMPLATE_STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import { HttpApiSchema } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import {
  DeletedTemplate,
  RenderedText,
  RenderRequest,
  Template,
  TemplateCreate,
  TemplateList,
} from '../schemas/templates.ts'
import { RENDER_REFUSALS, get, idParam, pageQuery, post, remove, resource } from './operation.ts'

export const TemplatesGroup = resource(
  'templates',
  'Templates',
  'Texts that may be sent.',
  post('create', '/v1/templates', {
    scope: 'manage',
    summary: 'Create a template',
    description:
      'Moderators of the operator look at it before it can be used; `template.approved` or `template.declined` tells. In test mode ' +
      'it can be used at once. Its sender must exist, and may still be pending. The name of a declined template can be used again: ' +
      'the new template has a new id and takes its place.',
    answer: 'The template.',
    codes: ['template_invalid', 'sender_not_registered', 'duplicate_rejected'],
    payload: TemplateCreate,
    success: Template.pipe(HttpApiSchema.status(201)),
  }),
  get('list', '/v1/templates', {
    summary: 'List templates',
    description:
      'The templates of the account and mode, newest first. A declined one whose name was submitted again is listed with ' +
      '`status=declined` only.',
    answer: 'A page of templates.',
    codes: ['invalid_parameter', 'not_found'],
    query: {
      status: Schema.optionalKey(
        Schema.Literals(TEMPLATE_STATUSES).annotate({
          description: 'Only templates with this status.',
          examples: ['declined'],
        }),
      ),
      ...pageQuery(LIST_LIMITS),
    },
    success: TemplateList,
  }),
  get('read', '/v1/templates/:id', {
    summary: 'Read a template',
    description: 'The template, with what moderators said of it.',
    answer: 'The template.',
    codes: ['not_found'],
    params: idParam('the template'),
    success: Template,
  }),
  remove('delete', '/v1/templates/:id', {
    summary: 'Delete a template',
    description:
      'Removes a template that is pending or declined, or whose sender is. One that messages can still use cannot be deleted. ' +
      'A second deletion is `not_found`.',
    answer: 'What was deleted.',
    codes: ['not_found', 'deletion_not_allowed'],
    params: idParam('the template'),
    success: DeletedTemplate,
  }),
  post('render', '/v1/templates/:id/render', {
    scope: 'manage',
    summary: 'Preview a template',
    description:
      'The text of the template with these values, and its parts. It sends nothing, and works whatever the status is.',
    answer: 'The text and its part count.',
    codes: ['not_found', ...RENDER_REFUSALS],
    params: idParam('the template'),
    payload: RenderRequest,
    success: RenderedText,
  }),
)
