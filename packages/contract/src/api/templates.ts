/** Operations of templates. Source: specification, Endpoints. */
import { HttpApiSchema } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import { RenderedText, RenderRequest, Template, TemplateCreate, TemplateList } from '../schemas/templates.ts'
import { RENDER_REFUSALS, get, idParam, pageQuery, post, resource } from './operation.ts'

const createTemplate = post('create', '/v1/templates', {
  summary: 'Create a template',
  description:
    'Moderators of the operator look at it before it can be used; `template.approved` or `template.declined` tells. In test mode ' +
    'it can be used at once. Its sender must exist, and may still be pending.',
  answer: 'The template.',
  codes: ['template_invalid', 'sender_not_registered', 'duplicate_rejected'],
  payload: TemplateCreate,
  success: Template.pipe(HttpApiSchema.status(201)),
})

const listTemplates = get('list', '/v1/templates', {
  summary: 'List templates',
  description: 'All templates of the account and mode, newest first.',
  answer: 'A page of templates.',
  codes: ['invalid_parameter', 'not_found'],
  query: pageQuery(LIST_LIMITS),
  success: TemplateList,
})

const readTemplate = get('read', '/v1/templates/:id', {
  summary: 'Read a template',
  description: 'The template, with what moderators said of it.',
  answer: 'The template.',
  codes: ['not_found'],
  params: idParam('the template'),
  success: Template,
})

const renderTemplate = post('render', '/v1/templates/:id/render', {
  summary: 'Preview a template',
  description:
    'The text of the template with these values, and its parts. It sends nothing, and works whatever the status is.',
  answer: 'The text and its part count.',
  codes: ['not_found', ...RENDER_REFUSALS],
  params: idParam('the template'),
  payload: RenderRequest,
  success: RenderedText,
})

export const TemplatesGroup = resource(
  'templates',
  'Templates',
  'Texts that may be sent.',
  createTemplate,
  listTemplates,
  readTemplate,
  renderTemplate,
)
