/** Operations of templates. Source: specification, Endpoints. */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import { RenderedText, RenderRequest, Template, TemplateCreate, TemplateList } from '../schemas/templates.ts'
import {
  ANY_POST,
  ANYWHERE,
  ApiKey,
  failures,
  idempotencyHeaders,
  idParam,
  limitParam,
  LIST_CODES,
  operation,
  READ_CODES,
  RENDER_REFUSALS,
  startingAfterParam,
} from './operation.ts'

const CREATE_TEMPLATE_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'template_invalid',
  'sender_not_registered',
  'duplicate_rejected',
] as const

const createTemplate = HttpApiEndpoint.post('create', '/v1/templates', {
  headers: idempotencyHeaders,
  payload: TemplateCreate,
  success: Template.pipe(HttpApiSchema.status(201)),
  error: failures(CREATE_TEMPLATE_CODES),
}).annotateMerge(
  operation({
    summary: 'Create a template',
    description:
      'Moderators of the operator look at it before it can be used; `template.approved` or `template.declined` tells. In test mode ' +
      'it can be used at once. Its sender must exist, and may still be pending.',
    answer: 'The template.',
    codes: CREATE_TEMPLATE_CODES,
  }),
)

const listTemplates = HttpApiEndpoint.get('list', '/v1/templates', {
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: TemplateList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List templates',
    description: 'All templates of the account and mode, newest first.',
    answer: 'A page of templates.',
    codes: LIST_CODES,
  }),
)

const readTemplate = HttpApiEndpoint.get('read', '/v1/templates/:id', {
  params: idParam('the template'),
  success: Template,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a template',
    description: 'The template, with what moderators said of it.',
    answer: 'The template.',
    codes: READ_CODES,
  }),
)

const RENDER_CODES = [...ANYWHERE, ...ANY_POST, 'not_found', ...RENDER_REFUSALS] as const

const renderTemplate = HttpApiEndpoint.post('render', '/v1/templates/:id/render', {
  params: idParam('the template'),
  headers: idempotencyHeaders,
  payload: RenderRequest,
  success: RenderedText,
  error: failures(RENDER_CODES),
}).annotateMerge(
  operation({
    summary: 'Preview a template',
    description:
      'The text of the template with these values, and its parts. It sends nothing, and works whatever the status is.',
    answer: 'The text and its part count.',
    codes: RENDER_CODES,
  }),
)

export const TemplatesGroup = HttpApiGroup.make('templates')
  .add(createTemplate, listTemplates, readTemplate, renderTemplate)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Templates', description: 'Texts that may be sent.' }))
