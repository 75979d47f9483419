/** Changes of the description of the API, for judges of the contract gate. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'

/** An API description that a change edits; the compiler does not check its members. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Changeable = Record<string, any>

const TEXT = readFileSync(join(ROOT, 'packages/contract/openapi.json'), 'utf8')

/** A new copy of the description. */
export const description = (): Changeable => JSON.parse(TEXT) as Changeable

export interface DescriptionChange {
  readonly name: string
  /** Completes the description before the change. */
  readonly before?: (api: Changeable) => void
  readonly change: (api: Changeable) => void
  /** Why oasdiff says the opposite of the gate. */
  readonly differs?: string
}

const AS_REQUEST = 'oasdiff compares a webhook as a request to the hub, but the hub sends it'
const OPEN_LIST = 'oasdiff does not know that lists of values in answers are open (VER-4)'
const UNSEEN = 'oasdiff does not compare this keyword'
const INFORMATION = 'oasdiff reports this only as information'

const schema = (api: Changeable, name: string): Changeable => api['components'].schemas[name]
const fields = (api: Changeable, name: string): Changeable => schema(api, name)['properties']
const at = (api: Changeable, path: string, method: string): Changeable => api['paths'][path][method]
const parameter = (operation: Changeable, name: string): Changeable =>
  operation['parameters'].find((one: Changeable) => one['name'] === name)
const list = (api: Changeable): Changeable => at(api, '/v1/messages', 'get')
const send = (api: Changeable): Changeable => at(api, '/v1/messages', 'post')
const webhooks = (api: Changeable): Changeable => api['webhooks']['message.delivered']
const webhook = (api: Changeable): Changeable => webhooks(api)['post']
const isOptional = (api: Changeable, name: string, field: string): void => {
  schema(api, name)['required'] = schema(api, name)['required'].filter((one: string) => one !== field)
}
/** A text of 3 to 5 characters matches both. */
const ALTERNATIVES = [
  { type: 'string', maxLength: 5 },
  { type: 'string', minLength: 3 },
]

/** The gate must stop them. */
export const BREAKING: ReadonlyArray<DescriptionChange> = [
  {
    name: 'an operation is removed',
    change: (api) => delete api['paths']['/v1/account'],
  },
  {
    name: 'a path changes its case',
    change: (api) => {
      api['paths']['/v1/Account'] = api['paths']['/v1/account']
      delete api['paths']['/v1/account']
    },
  },
  {
    name: 'an operation requires a key',
    change: (api) => (at(api, '/v1/openapi.json', 'get')['security'] = [{ bearer: [] }]),
  },
  {
    name: 'the scheme of keys changes',
    change: (api) =>
      (api['components'].securitySchemes.bearer = { type: 'apiKey', in: 'header', name: 'Key' }),
  },
  {
    name: 'a second key is required',
    change: (api) => {
      api['components'].securitySchemes.more = { type: 'apiKey', in: 'header', name: 'Key' }
      list(api)['security'] = [{ bearer: [], more: [] }]
    },
  },
  {
    name: 'an address of the hub is removed',
    change: (api) => (api['servers'] = [{ url: '/other' }]),
    differs: 'oasdiff does not compare addresses',
  },
  {
    name: 'a parameter is removed',
    change: (api) => list(api)['parameters'].shift(),
  },
  {
    name: 'a parameter moves to a header',
    change: (api) => (parameter(list(api), 'class')['in'] = 'header'),
  },
  {
    name: 'a required parameter is added',
    change: (api) =>
      list(api)['parameters'].push({
        name: 'more',
        in: 'query',
        required: true,
        schema: { type: 'string' },
      }),
  },
  {
    name: 'a parameter becomes required',
    change: (api) => (parameter(list(api), 'class')['required'] = true),
  },
  {
    name: 'a value of a parameter is removed',
    change: (api) => parameter(list(api), 'status')['schema'].enum.pop(),
  },
  {
    name: 'a parameter allows less',
    change: (api) => (parameter(list(api), 'limit')['schema'].maximum = 500),
  },
  {
    name: 'a parameter must be a multiple',
    change: (api) => (parameter(list(api), 'limit')['schema'].multipleOf = 10),
  },
  {
    name: 'the type of a parameter changes',
    change: (api) => (parameter(list(api), 'batch')['schema'].type = 'integer'),
  },
  {
    name: 'the default of a parameter changes',
    change: (api) => (parameter(list(api), 'limit')['schema'].default = 50),
    differs: INFORMATION,
  },
  {
    name: 'the form of a parameter changes',
    change: (api) => (parameter(list(api), 'class')['style'] = 'spaceDelimited'),
    differs: UNSEEN,
  },
  {
    name: 'a field of a request is removed',
    change: (api) => delete fields(api, 'SendRequest')['client_ref'],
  },
  {
    name: 'a required field of a request is added',
    change: (api) => {
      fields(api, 'SendRequest')['more'] = { type: 'string' }
      schema(api, 'SendRequest')['required'].push('more')
    },
  },
  {
    name: 'a field of a request becomes required',
    change: (api) => schema(api, 'TemplateCreate')['required'].push('language'),
  },
  {
    name: 'a request must match one more schema',
    change: (api) => (schema(api, 'TemplateCreate')['allOf'] = [{ required: ['language'] }]),
  },
  {
    name: 'a value of a request is removed',
    change: (api) => fields(api, 'TemplateCreate')['class'].enum.pop(),
  },
  {
    name: 'a field of a request gets shorter',
    change: (api) => (fields(api, 'TemplateCreate')['body'].maxLength = 1000),
  },
  {
    name: 'a field of a request gets a pattern',
    change: (api) => (fields(api, 'TemplateCreate')['sender'].pattern = '^[A-Z]+$'),
  },
  {
    name: 'a field of a request gets another pattern',
    change: (api) => (fields(api, 'TemplateCreate')['name'].pattern = '^[a-z]{1,64}$'),
  },
  {
    name: 'a field of a request gets another type',
    change: (api) => (fields(api, 'TemplateCreate')['sender'].type = 'integer'),
  },
  {
    name: 'a field of a request may only be read',
    change: (api) => (fields(api, 'TemplateCreate')['language'].readOnly = true),
  },
  {
    name: 'a field of a request must not be present',
    change: (api) => (fields(api, 'TemplateCreate')['language'] = false),
  },
  {
    name: 'one of several bounds of a request changes',
    before: (api) => (fields(api, 'TemplateCreate')['sender'].allOf = [{ maxLength: 10 }, { maxLength: 8 }]),
    change: (api) => (fields(api, 'TemplateCreate')['sender'].allOf[1].maxLength = 6),
  },
  {
    name: 'a request must match only one alternative',
    before: (api) => (fields(api, 'TemplateCreate')['sender'] = { anyOf: ALTERNATIVES }),
    change: (api) => (fields(api, 'TemplateCreate')['sender'] = { oneOf: ALTERNATIVES }),
  },
  {
    name: 'a list of a request needs more elements',
    change: (api) => (fields(api, 'BatchRequest')['messages'].minItems = 3),
  },
  {
    name: 'the elements of a request must differ',
    change: (api) => (fields(api, 'BatchRequest')['messages'].uniqueItems = true),
  },
  {
    name: 'the elements of a request get another type',
    change: (api) => (fields(api, 'WebhookEndpointCreate')['event_types'].items = { type: 'integer' }),
  },
  {
    name: 'a request refuses unknown fields',
    change: (api) => (schema(api, 'TemplateCreate')['additionalProperties'] = false),
    differs: UNSEEN,
  },
  {
    name: 'a request must not match a schema',
    change: (api) => (schema(api, 'TemplateCreate')['not'] = { required: ['language'] }),
    differs: UNSEEN,
  },
  {
    name: 'another media type of a request',
    change: (api) => {
      const { content } = send(api)['requestBody']
      content['text/json'] = content['application/json']
      delete content['application/json']
    },
  },
  {
    name: 'a status of success is removed',
    change: (api) => {
      const { responses } = send(api)
      responses[200] = responses[202]
      delete responses[202]
    },
  },
  {
    name: 'a status of failures is removed',
    change: (api) => delete send(api)['responses'][409],
    differs: INFORMATION,
  },
  {
    name: 'a header of an answer is removed',
    change: (api) => delete send(api)['responses'][202].headers['Request-Id'],
  },
  {
    name: 'a header of an answer becomes optional',
    change: (api) => (api['components'].headers['Request-Id'].required = false),
  },
  {
    name: 'another media type of an answer',
    change: (api) => {
      const { content } = send(api)['responses'][202]
      content['text/json'] = content['application/json']
      delete content['application/json']
    },
  },
  {
    name: 'a field of an answer is removed',
    change: (api) => {
      delete fields(api, 'Account')['name']
      isOptional(api, 'Account', 'name')
    },
  },
  {
    name: 'a field of an answer becomes optional',
    change: (api) => isOptional(api, 'Account', 'name'),
  },
  {
    name: 'a field of an answer may be null',
    change: (api) => (fields(api, 'Account')['name'].type = ['string', 'null']),
  },
  {
    name: 'a field of an answer gets another type',
    change: (api) => (fields(api, 'Account')['name'].type = 'integer'),
  },
  {
    name: 'a field of an answer may only be written',
    change: (api) => (fields(api, 'Account')['name'].writeOnly = true),
  },
  {
    name: 'a field of an answer has another format',
    change: (api) => (fields(api, 'Message')['created_at'].format = 'date'),
  },
  {
    name: 'the least number of an answer falls',
    change: (api) => (fields(api, 'Account')['limits'].properties.api_rps.minimum = 0),
  },
  {
    name: 'the pattern of an answer is removed',
    change: (api) => delete fields(api, 'Account')['id'].pattern,
  },
  {
    name: 'the elements of an answer get another type',
    change: (api) => (fields(api, 'MessageList')['data'].items = { type: 'string' }),
  },
  {
    name: 'a value of an answer is removed',
    change: (api) => fields(api, 'Message')['status'].anyOf[0].enum.pop(),
    differs: 'oasdiff allows it, but programs that wait for a known value would wait for ever',
  },
  {
    name: 'a webhook is removed',
    change: (api) => delete api['webhooks']['message.delivered'],
  },
  {
    name: 'a header of a webhook is removed',
    change: (api) => webhook(api)['parameters'].shift(),
  },
  {
    name: 'a webhook sends no body',
    change: (api) => delete webhook(api)['requestBody'],
  },
  {
    name: 'a webhook accepts fewer statuses',
    change: (api) => {
      const { responses } = webhook(api)
      responses[200] = responses['2XX']
      delete responses['2XX']
    },
    differs: AS_REQUEST,
  },
  {
    name: 'a field of an event is removed',
    change: (api) => {
      delete fields(api, 'MessageDeliveredEvent')['mode']
      isOptional(api, 'MessageDeliveredEvent', 'mode')
    },
  },
  {
    name: 'a field of an event becomes optional',
    change: (api) => isOptional(api, 'MessageDeliveredEvent', 'mode'),
    differs: AS_REQUEST,
  },
  {
    name: 'a field of an event gets another type',
    change: (api) => (fields(api, 'MessageSnapshot')['id'].type = 'integer'),
  },
  {
    name: 'a type of event is no longer selected',
    change: (api) => delete schema(api, 'KnownEvent')['discriminator'].mapping['message.sent'],
    differs: INFORMATION,
  },
  {
    name: 'a type of event selects another schema',
    change: (api) =>
      (schema(api, 'KnownEvent')['discriminator'].mapping['message.sent'] =
        '#/components/schemas/BatchCompletedEvent'),
    differs: INFORMATION,
  },
]

/** The gate must allow them. */
export const ALLOWED: ReadonlyArray<DescriptionChange> = [
  {
    name: 'an operation is added',
    change: (api) => (api['paths']['/v1/more'] = { get: { responses: { 200: { description: 'ok' } } } }),
  },
  {
    name: 'an operation no longer requires a key',
    change: (api) => (list(api)['security'] = []),
  },
  {
    name: 'an optional parameter is added',
    change: (api) =>
      list(api)['parameters'].push({
        name: 'more',
        in: 'query',
        required: false,
        schema: { type: 'string' },
      }),
  },
  {
    name: 'a value of a parameter is added',
    change: (api) => parameter(list(api), 'status')['schema'].enum.push('lost'),
  },
  {
    name: 'a parameter allows more',
    change: (api) => (parameter(list(api), 'limit')['schema'].maximum = 5000),
  },
  {
    name: 'an optional field of a request is added',
    change: (api) => (fields(api, 'SendRequest')['more'] = { type: 'string' }),
  },
  {
    name: 'a field of a request becomes optional',
    change: (api) => isOptional(api, 'TemplateCreate', 'sender'),
  },
  {
    name: 'a value of a request is added',
    change: (api) => fields(api, 'TemplateCreate')['class'].enum.push('promo'),
  },
  {
    name: 'a field of a request may be null',
    change: (api) => (fields(api, 'TemplateCreate')['sender'].type = ['string', 'null']),
  },
  {
    name: 'a field of a request gets a default',
    change: (api) => (fields(api, 'TemplateCreate')['language'].default = 'ru'),
  },
  {
    name: 'the body of a request becomes optional',
    change: (api) => (send(api)['requestBody'].required = false),
  },
  {
    name: 'a status is added',
    change: (api) => (send(api)['responses'][418] = { description: 'no' }),
  },
  {
    name: 'a field of an answer is added',
    change: (api) => {
      fields(api, 'Account')['more'] = { type: 'string' }
      schema(api, 'Account')['required'].push('more')
    },
  },
  {
    name: 'the least number of an answer rises',
    change: (api) => (fields(api, 'Account')['limits'].properties.api_rps.minimum = 2),
  },
  {
    name: 'a value of an answer is added',
    change: (api) => fields(api, 'Message')['status'].anyOf[0].enum.push('lost'),
    differs: OPEN_LIST,
  },
  {
    name: 'the known values of an answer are no longer listed',
    change: (api) => (fields(api, 'Message')['class'] = { type: 'string' }),
  },
  {
    name: 'a webhook is added',
    change: (api) => (api['webhooks']['message.lost'] = structuredClone(webhooks(api))),
  },
  {
    name: 'a field of an event is added',
    change: (api) => {
      fields(api, 'MessageDeliveredEvent')['more'] = { type: 'string' }
      schema(api, 'MessageDeliveredEvent')['required'].push('more')
    },
    differs: AS_REQUEST,
  },
  {
    name: 'a header of a webhook is added',
    change: (api) =>
      webhook(api)['parameters'].push({
        name: 'more',
        in: 'header',
        required: true,
        schema: { type: 'string' },
      }),
    differs: AS_REQUEST,
  },
  {
    name: 'an operation id changes',
    change: (api) => (list(api)['operationId'] = 'other'),
  },
  {
    name: 'a text changes',
    change: (api) => (list(api)['summary'] = 'Another text'),
  },
]
