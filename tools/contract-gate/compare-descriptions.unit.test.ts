import { describe, expect, it } from 'vitest'
import { description, type Json, type JsonObject } from '@hub/contract'
import { compareDescriptions } from './compare-descriptions.ts'

const TODAY = '2026-11-21'
const daysBefore = (days: number) =>
  new Date(Date.parse(TODAY) - days * 86_400_000).toISOString().slice(0, 10)

/** An API description that a test changes; the compiler does not check its members. */
// oxlint-disable-next-line typescript/no-explicit-any
type Changeable = Record<string, any>

/** A small API that uses each OpenAPI feature that the gate compares. */
const base = (): Changeable => ({
  openapi: '3.1.0',
  paths: {
    '/v1/things': {
      post: {
        operationId: 'things.create',
        security: [{ bearer: [] }],
        parameters: [{ name: 'Trace', in: 'header', required: false, schema: { type: 'string' } }],
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                type: 'object',
                properties: {
                  name: { type: 'string', maxLength: 10, pattern: '^a' },
                  size: { type: 'integer', minimum: 1 },
                  kind: { type: 'string', enum: ['a', 'b'] },
                  tags: { type: 'array', items: { type: 'string' } },
                  extra: { type: 'object', additionalProperties: { type: 'string' } },
                },
                required: ['name'],
              },
            },
          },
        },
        responses: {
          201: {
            description: 'made',
            headers: { 'Request-Id': { required: true, schema: { type: 'string' } } },
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
          },
          422: {
            description: 'refused',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
          },
        },
        callbacks: {
          made: {
            '{$request.body#/url}': {
              post: {
                requestBody: {
                  content: { 'application/json': { schema: { $ref: '#/components/schemas/Known' } } },
                },
                responses: { '2XX': { description: 'taken' } },
              },
            },
          },
        },
      },
    },
    '/v1/things/{id}': {
      get: {
        operationId: 'things.read',
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          {
            name: 'limit',
            in: 'query',
            required: false,
            schema: { type: 'integer', maximum: 100, default: 20 },
          },
        ],
        responses: {
          200: {
            description: 'it',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
          },
        },
      },
    },
  },
  servers: [{ url: '/' }],
  webhooks: {
    'thing.made': {
      post: {
        operationId: 'webhook.thing.made',
        parameters: [{ name: 'Signature', in: 'header', required: true, schema: { type: 'string' } }],
        requestBody: {
          required: true,
          content: {
            'application/json': { schema: { type: 'array', items: { $ref: '#/components/schemas/Known' } } },
          },
        },
        responses: { '2XX': { description: 'taken' } },
      },
    },
  },
  components: {
    schemas: {
      Known: {
        anyOf: [
          {
            oneOf: [{ $ref: '#/components/schemas/Made' }, { $ref: '#/components/schemas/Gone' }],
            discriminator: {
              propertyName: 'type',
              mapping: { made: '#/components/schemas/Made', gone: '#/components/schemas/Gone' },
            },
          },
          { $ref: '#/components/schemas/Any' },
        ],
      },
      Made: {
        type: 'object',
        properties: {
          type: { type: 'string', enum: ['made'] },
          thing: { $ref: '#/components/schemas/Thing' },
        },
        required: ['type', 'thing'],
      },
      Gone: {
        type: 'object',
        properties: { type: { type: 'string', enum: ['gone'] }, id: { type: 'string' } },
        required: ['type', 'id'],
      },
      Any: {
        type: 'object',
        properties: { type: { anyOf: [{ type: 'string', enum: ['made', 'gone'] }, { type: 'string' }] } },
        required: ['type'],
      },
      Thing: {
        type: 'object',
        properties: {
          id: { type: 'string' },
          status: { type: 'string', enum: ['new', 'old'] },
          note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
          count: { type: 'integer', minimum: 0 },
          parent: { $ref: '#/components/schemas/Thing' },
          data: { anyOf: [{ $ref: '#/components/schemas/Error' }, { type: 'object' }] },
          at: { type: 'string', pattern: 'Z$' },
          maybe: { type: 'boolean' },
        },
        required: ['id', 'status', 'note', 'count'],
      },
      Error: {
        type: 'object',
        properties: { code: { type: 'string', enum: ['x', 'y'] } },
        required: ['code'],
      },
    },
    securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
  },
})

const things = (api: Changeable) => api['paths']['/v1/things'].post
const thing = (api: Changeable) => api['paths']['/v1/things/{id}'].get
const body = (api: Changeable) => things(api).requestBody.content['application/json'].schema
const response = (api: Changeable) => api['components'].schemas.Thing

const webhook = (api: Changeable) => api['webhooks']['thing.made'].post
const schemas = (api: Changeable) => api['components'].schemas
const known = (api: Changeable) => schemas(api).Known.anyOf[0]
const addEvent = (api: Changeable) => {
  schemas(api).Moved = {
    type: 'object',
    properties: { type: { type: 'string', enum: ['moved'] }, to: { type: 'string' } },
    required: ['type', 'to'],
  }
  known(api).oneOf.push({ $ref: '#/components/schemas/Moved' })
  known(api).discriminator.mapping.moved = '#/components/schemas/Moved'
}

/** The distinct results (`kind rule`) that the gate reports for a change. */
const reportOf = (
  change: (api: Changeable) => void,
  before: (api: Changeable) => void = () => undefined,
): Array<string> => {
  const [was, is] = [base(), base()]
  before(was)
  before(is)
  change(is)
  const changes = compareDescriptions(was as JsonObject, is as JsonObject, TODAY)
  return [...new Set(changes.map(({ kind, rule }) => `${kind} ${rule}`))]
}

type Change = (api: Changeable) => void
type Case = readonly [name: string, rule: string, change: Change]

const BREAKING: ReadonlyArray<Case> = [
  ['an endpoint is removed', 'operation-removed', (api) => delete api['paths']['/v1/things/{id}']],
  ['a method is removed', 'operation-removed', (api) => delete api['paths']['/v1/things'].post],
  [
    'a keyless operation requires a key',
    'operation-secured',
    (api) => (thing(api).security = [{ bearer: [] }]),
  ],
  ['all operations require a key', 'operation-secured', (api) => (api['security'] = [{ bearer: [] }])],
  [
    'another security scheme is required',
    'security-changed',
    (api) => (api['components'].securitySchemes.bearer = { type: 'apiKey', in: 'header', name: 'Key' }),
  ],
  [
    'a second security scheme is required',
    'security-changed',
    (api) => (things(api).security = [{ bearer: [], second: [] }]),
  ],
  ['a parameter is removed', 'parameter-removed', (api) => thing(api).parameters.pop()],
  ['a parameter is renamed', 'parameter-removed', (api) => (thing(api).parameters[1].name = 'size')],
  [
    'a parameter becomes required',
    'parameter-became-required',
    (api) => (thing(api).parameters[1].required = true),
  ],
  [
    'a required parameter is added',
    'required-parameter-added',
    (api) =>
      thing(api).parameters.push({ name: 'q', in: 'query', required: true, schema: { type: 'string' } }),
  ],
  ['a parameter allows less', 'maximum-tightened', (api) => (thing(api).parameters[1].schema.maximum = 50)],
  [
    'the default of a parameter changes',
    'default-changed',
    (api) => (thing(api).parameters[1].schema.default = 10),
  ],
  [
    'the form of a parameter changes',
    'parameter-form-changed',
    (api) => (thing(api).parameters[1].explode = false),
  ],
  ['a field of a request is removed', 'field-removed', (api) => delete body(api).properties.tags],
  [
    'a field of a request is renamed',
    'field-removed',
    (api) => {
      body(api).properties.titel = body(api).properties.name
      delete body(api).properties.name
      body(api).required = ['titel']
    },
  ],
  [
    'a required request field is added',
    'required-field-added',
    (api) => {
      body(api).properties.more = { type: 'string' }
      body(api).required.push('more')
    },
  ],
  [
    'a request requires a field without describing it',
    'required-field-added',
    (api) => body(api).required.push('more'),
  ],
  [
    'an optional request field becomes required',
    'field-became-required',
    (api) => body(api).required.push('size'),
  ],
  [
    'a field of a request changes its type',
    'type-changed',
    (api) => (body(api).properties.size.type = 'string'),
  ],
  [
    'a number of a request becomes an integer',
    'type-changed',
    (api) => (body(api).properties.name = { type: 'integer' }),
  ],
  [
    'an enumeration of a request narrows',
    'enumeration-narrowed',
    (api) => (body(api).properties.kind.enum = ['a']),
  ],
  [
    'a string of a request gets an enumeration',
    'enumeration-narrowed',
    (api) => (body(api).properties.name.enum = ['a']),
  ],
  [
    'the maximum length of a request field shrinks',
    'maxLength-tightened',
    (api) => (body(api).properties.name.maxLength = 9),
  ],
  ['a request gets a bound', 'maximum-tightened', (api) => (body(api).properties.size.maximum = 5)],
  ['a request gets another pattern', 'pattern-changed', (api) => (body(api).properties.name.pattern = '^b')],
  ['a request gets a pattern', 'pattern-tightened', (api) => (body(api).properties.kind.pattern = '^a')],
  [
    'the element type of a request list changes',
    'type-changed',
    (api) => (body(api).properties.tags.items.type = 'number'),
  ],
  [
    'the member type of a request object changes',
    'type-changed',
    (api) => (body(api).properties.extra.additionalProperties.type = 'number'),
  ],
  [
    'a request refuses unknown fields',
    'additionalProperties-closed',
    (api) => (body(api).additionalProperties = false),
  ],
  [
    'a field of a request may only be read',
    'field-became-read-only',
    (api) => (body(api).properties.size.readOnly = true),
  ],
  ['a field of a request must not be present', 'field-removed', (api) => (body(api).properties.size = false)],
  [
    'a field of an answer may only be written',
    'field-became-write-only',
    (api) => (response(api).properties.id.writeOnly = true),
  ],
  [
    'the schema of a response field may only be written',
    'field-became-write-only',
    (api) =>
      (response(api).properties.parent = {
        allOf: [{ $ref: '#/components/schemas/Thing' }],
        writeOnly: true,
      }),
  ],
  [
    'a value of a discriminator selects another schema',
    'enumeration-narrowed',
    (api) => (known(api).discriminator.mapping.gone = '#/components/schemas/Made'),
  ],
  ['an unknown keyword appears', 'keyword-changed', (api) => (body(api).not = { required: ['size'] })],
  [
    'a body becomes required',
    'required-body-added',
    (api) => (thing(api).requestBody = { required: true, content: {} }),
  ],
  ['a body is removed', 'body-removed', (api) => delete things(api).requestBody],
  [
    'a media type of a request is removed',
    'media-type-removed',
    (api) => (things(api).requestBody.content = { 'text/plain': {} }),
  ],
  ['a status is removed', 'response-removed', (api) => delete things(api).responses['422']],
  [
    'a media type of a response is removed',
    'media-type-removed',
    (api) => (thing(api).responses['200'].content = {}),
  ],
  [
    'a header of a response is removed',
    'header-removed',
    (api) => delete things(api).responses['201'].headers['Request-Id'],
  ],
  [
    'a header of a response becomes optional',
    'header-became-optional',
    (api) => delete things(api).responses['201'].headers['Request-Id'].required,
  ],
  [
    'a field of a response is removed',
    'field-removed',
    (api) => {
      delete response(api).properties.count
      response(api).required = ['id', 'status', 'note']
    },
  ],
  [
    'an optional field of a response is removed',
    'field-removed',
    (api) => delete response(api).properties.maybe,
  ],
  [
    'a field of a response is renamed',
    'field-removed',
    (api) => {
      response(api).properties.total = response(api).properties.count
      delete response(api).properties.count
    },
  ],
  ['a field of a response becomes optional', 'field-became-optional', (api) => response(api).required.pop()],
  [
    'a field of a response changes its type',
    'type-changed',
    (api) => (response(api).properties.id = { type: 'integer' }),
  ],
  [
    'an integer of a response becomes any number',
    'type-changed',
    (api) => (response(api).properties.count.type = 'number'),
  ],
  [
    'a field of a response may be null',
    'type-added',
    (api) => (response(api).properties.id = { type: ['string', 'null'] }),
  ],
  [
    'a field of a response is no longer nullable',
    'type-removed',
    (api) => (response(api).properties.note = { type: 'string' }),
  ],
  [
    'an alternative of a response is removed',
    'field-removed',
    (api) => response(api).properties.data.anyOf.shift(),
  ],
  [
    'an enumeration of a response narrows',
    'enumeration-narrowed',
    (api) => (response(api).properties.status.enum = ['new']),
  ],
  [
    'a value is renamed',
    'enumeration-narrowed',
    (api) => (response(api).properties.status.enum = ['new', 'ancient']),
  ],
  [
    'an error code is removed deep in a component',
    'enumeration-narrowed',
    (api) => (api['components'].schemas.Error.properties.code.enum = ['x']),
  ],
  [
    'a response field changes its pattern',
    'pattern-changed',
    (api) => (response(api).properties.at.pattern = '[+]'),
  ],
  [
    'a response field loses its pattern',
    'pattern-loosened',
    (api) => delete response(api).properties.at.pattern,
  ],
  [
    'a response field loses its bound',
    'minimum-loosened',
    (api) => delete response(api).properties.count.minimum,
  ],
  ['a webhook is removed', 'webhook-removed', (api) => delete api['webhooks']['thing.made']],
  ['a callback is removed', 'webhook-removed', (api) => delete api['paths']['/v1/things'].post.callbacks],
  [
    'the body of a callback is removed',
    'body-removed',
    (api) => delete api['paths']['/v1/things'].post.callbacks.made['{$request.body#/url}'].post.requestBody,
  ],
  [
    'a webhook gets another method',
    'webhook-removed',
    (api) => {
      api['webhooks']['thing.made'].put = webhook(api)
      delete api['webhooks']['thing.made'].post
    },
  ],
  ['a header of a webhook is removed', 'header-removed', (api) => (webhook(api).parameters = [])],
  [
    'a header of a webhook becomes optional',
    'header-became-optional',
    (api) => (webhook(api).parameters[0].required = false),
  ],
  ['the body of a webhook is removed', 'body-removed', (api) => delete webhook(api).requestBody],
  [
    'a webhook has one event in place of a list',
    'type-removed',
    (api) =>
      (webhook(api).requestBody.content['application/json'].schema = { $ref: '#/components/schemas/Known' }),
  ],
  [
    'a receiver may no longer answer with any success',
    'response-removed',
    (api) => (webhook(api).responses = { 200: { description: 'taken' } }),
  ],
  ['a field of an event is removed', 'field-removed', (api) => delete schemas(api).Gone.properties.id],
  [
    'a field of an event becomes optional',
    'field-became-optional',
    (api) => schemas(api).Gone.required.pop(),
  ],
  [
    'a field of an event changes its type',
    'type-changed',
    (api) => (schemas(api).Gone.properties.id.type = 'integer'),
  ],
  [
    'an event may contain null',
    'type-added',
    (api) => (schemas(api).Gone.properties.id.type = ['string', 'null']),
  ],
  ['a type of event is removed', 'type-removed', (api) => known(api).oneOf.pop()],
  [
    'a value of a discriminator is removed',
    'discriminator-value-removed',
    (api) => delete known(api).discriminator.mapping.gone,
  ],
  [
    'a discriminator of constants reads another field',
    'type-removed',
    (api) => (known(api).discriminator.propertyName = 'kind'),
  ],
  ['new types of events are no longer admitted', 'type-removed', (api) => schemas(api).Known.anyOf.pop()],
  ['an address of the hub is removed', 'server-removed', (api) => (api['servers'] = [{ url: '/api' }])],
  [
    'an operation gets an address of its own',
    'operation-changed',
    (api) => (thing(api).servers = [{ url: '/other' }]),
  ],
  [
    'a path gets an address of its own',
    'path-changed',
    (api) => (api['paths']['/v1/things/{id}'].servers = [{ url: '/other' }]),
  ],
  [
    'a parameter admits an empty value no longer',
    'parameter-form-changed',
    (api) => (thing(api).parameters[1].allowEmptyValue = false),
  ],
  [
    'a header of a response gets another form',
    'header-form-changed',
    (api) => (things(api).responses['201'].headers['Request-Id'].explode = true),
  ],
  [
    'a body gets an encoding',
    'media-type-changed',
    (api) => (things(api).requestBody.content['application/json'].encoding = { name: {} }),
  ],
  [
    'the dialect of the schemas changes',
    'document-changed',
    (api) => (api['jsonSchemaDialect'] = 'https://json-schema.org/draft/2019-09/schema'),
  ],
  ['a deprecation has no date', 'deprecation-without-date', (api) => (thing(api).deprecated = true)],
]

const ADDITIVE: ReadonlyArray<Case> = [
  [
    'an endpoint is added',
    'operation-added',
    (api) => (api['paths']['/v1/more'] = { get: { responses: {} } }),
  ],
  [
    'a callback is added',
    'webhook-added',
    (api) => {
      const { callbacks } = api['paths']['/v1/things'].post
      api['paths']['/v1/things/{id}'].get.callbacks = structuredClone(callbacks)
    },
  ],
  ['a method is added', 'operation-added', (api) => (api['paths']['/v1/things'].get = { responses: {} })],
  [
    'an optional parameter is added',
    'parameter-added',
    (api) => thing(api).parameters.push({ name: 'q', in: 'query', schema: {} }),
  ],
  [
    'a parameter becomes optional',
    'parameter-became-optional',
    (api) => (thing(api).parameters[0].required = false),
  ],
  ['a parameter allows more', 'maximum-loosened', (api) => (thing(api).parameters[1].schema.maximum = 1000)],
  [
    'an optional field of a request is added',
    'field-added',
    (api) => (body(api).properties.more = { type: 'string' }),
  ],
  ['a field of a request becomes optional', 'field-became-optional', (api) => (body(api).required = [])],
  [
    'an integer of a request becomes any number',
    'type-changed',
    (api) => (body(api).properties.size.type = 'number'),
  ],
  [
    'a field of a request may be null',
    'type-added',
    (api) => (body(api).properties.name.type = ['string', 'null']),
  ],
  [
    'an enumeration of a request grows',
    'enumeration-value-added',
    (api) => body(api).properties.kind.enum.push('c'),
  ],
  [
    'an enumeration of a request is removed',
    'enumeration-opened',
    (api) => delete body(api).properties.kind.enum,
  ],
  [
    'the maximum length of a request field grows',
    'maxLength-loosened',
    (api) => (body(api).properties.name.maxLength = 20),
  ],
  [
    'a request field loses its pattern',
    'pattern-loosened',
    (api) => delete body(api).properties.name.pattern,
  ],
  ['a body becomes optional', 'body-became-optional', (api) => (things(api).requestBody.required = false)],
  [
    'a media type is added',
    'media-type-added',
    (api) => (things(api).requestBody.content['text/plain'] = {}),
  ],
  ['a status is added', 'response-added', (api) => (things(api).responses['409'] = { description: 'busy' })],
  [
    'a header of a response is added',
    'header-added',
    (api) => (things(api).responses['201'].headers.More = { schema: {} }),
  ],
  [
    'an optional field of a response is added',
    'field-added',
    (api) => (response(api).properties.more = { type: 'string' }),
  ],
  [
    'a field of a response is added',
    'field-added',
    (api) => {
      response(api).properties.more = { type: 'string' }
      response(api).required.push('more')
    },
  ],
  [
    'a field of a response becomes required',
    'field-became-required',
    (api) => response(api).required.push('maybe'),
  ],
  [
    'an enumeration of a response grows',
    'enumeration-value-added',
    (api) => response(api).properties.status.enum.push('newest'),
  ],
  [
    'an error code is added',
    'enumeration-value-added',
    (api) => api['components'].schemas.Error.properties.code.enum.push('z'),
  ],
  [
    'a response field gets a bound',
    'maximum-tightened',
    (api) => (response(api).properties.count.maximum = 9),
  ],
  ['a webhook is added', 'webhook-added', (api) => (api['webhooks']['thing.gone'] = { post: {} })],
  [
    'a header of a webhook is added',
    'header-added',
    (api) => webhook(api).parameters.push({ name: 'More', in: 'header', schema: {} }),
  ],
  ['a type of event is added', 'type-added', addEvent],
  [
    'a field of an event is added',
    'field-added',
    (api) => (schemas(api).Gone.properties.at = { type: 'string' }),
  ],
  ['an address of the hub is added', 'server-added', (api) => api['servers'].push({ url: '/api' })],
  ['an operation no longer requires a key', 'security-relaxed', (api) => (things(api).security = [])],
  [
    'an alternative security requirement is added',
    'security-relaxed',
    (api) => things(api).security.push({}),
  ],
  [
    'an operation is deprecated, with its date',
    'operation-deprecated',
    (api) => {
      thing(api).deprecated = true
      thing(api)['x-deprecated-since'] = TODAY
    },
  ],
]

/** Changes that no program can notice. */
const NOTHING: ReadonlyArray<readonly [string, (api: Changeable) => void]> = [
  ['no change', () => undefined],
  ['a description', (api) => (response(api).properties.id.description = 'new words')],
  ['an example', (api) => (response(api).examples = [{ id: 'x' }])],
  ['an operation id', (api) => (thing(api).operationId = 'renamed')],
  [
    'the name of a path parameter',
    (api) => {
      api['paths']['/v1/things/{thing}'] = api['paths']['/v1/things/{id}']
      delete api['paths']['/v1/things/{id}']
      thing({ paths: { '/v1/things/{id}': api['paths']['/v1/things/{thing}'] } }).parameters[0].name = 'thing'
    },
  ],
  ['the case of a header', (api) => (things(api).parameters[0].name = 'trace')],
  [
    'the name of a component',
    (api) => {
      api['components'].schemas.Problem = api['components'].schemas.Error
      things(api).responses['422'].content['application/json'].schema.$ref = '#/components/schemas/Problem'
    },
  ],
  [
    'a component written inline',
    (api) => {
      things(api).responses['422'].content['application/json'].schema = api['components'].schemas.Error
    },
  ],
  [
    'null written as a list of types',
    (api) => (response(api).properties.note = { type: ['string', 'null'] }),
  ],
  [
    'a constant written as an enumeration',
    (api) => (response(api).properties.status = { allOf: [{ type: 'string' }, { enum: ['old', 'new'] }] }),
  ],
  [
    'a discriminator that is new',
    (api) => (response(api).properties.data.discriminator = { propertyName: 'code' }),
  ],
  [
    'alternatives of other types written as one of them',
    (api) => (response(api).properties.note = { oneOf: [{ type: 'string' }, { type: 'null' }] }),
  ],
  [
    'the name of the schema that a discriminator selects',
    (api) => {
      schemas(api).Lost = schemas(api).Gone
      known(api).discriminator.mapping.gone = '#/components/schemas/Lost'
      known(api).oneOf[1].$ref = '#/components/schemas/Lost'
    },
  ],
  ['the description of an address', (api) => (api['servers'][0].description = 'This hub.')],
  ['the order of fields', (api) => (response(api).required = response(api).required.toReversed())],
]

/** Breaking changes of another description; the last function makes it. */
const BREAKING_OF_OTHERS: ReadonlyArray<readonly [...Case, before: Change]> = [
  [
    'a discriminator reads another field',
    'discriminator-changed',
    (api) => (response(api).properties.data.discriminator.propertyName = 'kind'),
    (api) => (response(api).properties.data.discriminator = { propertyName: 'code' }),
  ],
  [
    'one of several bounds of a field changes',
    'keyword-changed',
    (api) => (body(api).properties.name.allOf[1].maxLength = 6),
    (api) => (body(api).properties.name.allOf = [{ maxLength: 10 }, { maxLength: 8 }]),
  ],
  [
    'a field that two schemas describe gets a bound in the second',
    'maxLength-tightened',
    (api) => (body(api).allOf[0].properties.kind.maxLength = 1),
    (api) => (body(api).allOf = [{ properties: { kind: { minLength: 1 } } }]),
  ],
  [
    'a field beside alternatives is removed',
    'field-removed',
    (api) => delete response(api).properties.data.properties.note,
    (api) =>
      (response(api).properties.data = {
        properties: { note: { type: 'string' } },
        anyOf: [{ type: 'object', properties: { a: { type: 'string' } } }],
      }),
  ],
  [
    'a request must match only one of two alternatives',
    'union-narrowed',
    (api) =>
      (body(api).properties.kind = {
        oneOf: [
          { type: 'string', maxLength: 5 },
          { type: 'string', minLength: 3 },
        ],
      }),
    (api) =>
      (body(api).properties.kind = {
        anyOf: [
          { type: 'string', maxLength: 5 },
          { type: 'string', minLength: 3 },
        ],
      }),
  ],
  [
    'an answer may match several alternatives',
    'union-widened',
    (api) =>
      (response(api).properties.note = {
        anyOf: [
          { type: 'string', maxLength: 5 },
          { type: 'string', minLength: 3 },
        ],
      }),
    (api) =>
      (response(api).properties.note = {
        oneOf: [
          { type: 'string', maxLength: 5 },
          { type: 'string', minLength: 3 },
        ],
      }),
  ],
  [
    'a new type of event is sent where none is admitted',
    'type-added',
    (api) => addEvent(api),
    (api) => schemas(api).Known.anyOf.pop(),
  ],
]

describe('the gate stops', () => {
  // Rules: VER-8
  it.each(BREAKING_OF_OTHERS)('when %s', (_, rule, change, before) => {
    expect(reportOf(change, before)).toContain(`breaking ${rule}`)
  })

  // Rules: VER-8
  it.each(BREAKING)('when %s', (_, rule, change) => {
    expect(reportOf(change)).toContain(`breaking ${rule}`)
  })
})

describe('the gate allows', () => {
  it.each(ADDITIVE)('when %s', (_, rule, change) => {
    expect(reportOf(change)).toEqual([`additive ${rule}`])
  })

  it.each(NOTHING)('and does not report %s', (_, change) => {
    expect(reportOf(change)).toEqual([])
  })
})

describe('the gate of an API whose clients also read answers of its previous version', () => {
  const changesOf = (change: (api: Changeable) => void) => {
    const is = base()
    change(is)
    return compareDescriptions(base() as JsonObject, is as JsonObject, TODAY, true)
  }
  const addField = (api: Changeable) => (response(api).properties.more = { type: 'string' })

  it('stops a new field that every answer must have', () => {
    const found = changesOf((api) => {
      addField(api)
      response(api).required.push('more')
    })
    expect(found).toContainEqual({
      kind: 'breaking',
      rule: 'required-field-added',
      where: 'GET /v1/things/{id} → 200 application/json.more',
    })
  })

  it('allows a new field that may be absent', () => {
    expect([...new Set(changesOf(addField).map(({ kind, rule }) => `${kind} ${rule}`))]).toEqual([
      'additive field-added',
    ])
  })
})

describe('a deprecated operation', () => {
  const since = (days: number) => (api: Changeable) => {
    thing(api).deprecated = true
    thing(api)['x-deprecated-since'] = daysBefore(days)
  }
  const newVersion = (api: Changeable) => (api['paths']['/v2/things/{id}'] = { get: { responses: {} } })
  const removal = (api: Changeable) => delete api['paths']['/v1/things/{id}']

  // Rules: VER-9
  it('may be removed after 90 days, with a new path version', () => {
    expect(reportOf(removal, (api) => [since(90)(api), newVersion(api)])).toEqual([
      'additive deprecated-operation-removed',
    ])
  })

  // Rules: VER-9
  it('may not be removed a day earlier, nor without a new path version', () => {
    expect(reportOf(removal, (api) => [since(89)(api), newVersion(api)])).toEqual([
      'breaking operation-removed-too-early',
    ])
    expect(reportOf(removal, since(90))).toEqual(['breaking operation-removed-without-new-version'])
  })

  it('must keep its announcement date', () => {
    expect(reportOf(since(200), since(10))).toEqual(['breaking deprecation-date-changed'])
  })

  const ends = (sunset: string) => (api: Changeable) => {
    since(10)(api)
    thing(api)['x-sunset'] = sunset
  }

  // Rules: VER-9
  it('may get the day of its end, 90 days before that day, and a later one', () => {
    expect(reportOf(ends(daysBefore(-90)), since(10))).toEqual(['additive operation-sunset-stated'])
    expect(reportOf(ends(daysBefore(-200)), ends(daysBefore(-90)))).toEqual([])
  })

  // Rules: VER-9
  it('may not end earlier than announced', () => {
    expect(reportOf(ends(daysBefore(-89)), since(10))).toEqual(['breaking operation-sunset-too-early'])
    expect(reportOf(ends(daysBefore(-90)), ends(daysBefore(-91)))).toEqual([
      'breaking operation-sunset-brought-forward',
    ])
    expect(reportOf((api) => delete thing(api)['x-sunset'], ends(daysBefore(-90)))).toEqual([
      'breaking operation-sunset-withdrawn',
    ])
    expect(reportOf(ends('30 June'), since(10))).toEqual(['breaking operation-sunset-wrong'])
    const announced = (sunset: string) => (api: Changeable) => {
      since(200)(api)
      thing(api)['x-sunset'] = sunset
      newVersion(api)
    }
    expect(reportOf(removal, announced(daysBefore(-1)))).toEqual(['breaking operation-removed-too-early'])
    expect(reportOf(removal, announced(TODAY))).toEqual(['additive deprecated-operation-removed'])
  })

  it('may be reinstated', () => {
    expect(reportOf((api) => delete thing(api).deprecated, since(10))).toEqual([
      'additive deprecation-withdrawn',
    ])
  })
})

describe('a deprecated field or parameter', () => {
  const daysAfter = (days: number) => daysBefore(-days)
  const tags = (api: Changeable) => things(api).requestBody.content['application/json'].schema.properties
  const deprecate = (sunset?: string) => (api: Changeable) => {
    for (const part of [tags(api).tags, thing(api).parameters[1]]) {
      part.deprecated = true
      if (sunset !== undefined) part['x-sunset'] = sunset
    }
  }
  const removal = (api: Changeable) => [delete tags(api).tags, thing(api).parameters.pop()]
  const both = (kind: string, rule: (what: string) => string) =>
    ['field', 'parameter'].map((what) => `${kind} ${rule(what)}`)

  // Rules: VER-9
  it('needs the date of its end, at least 90 days from now', () => {
    const rule = (what: string) => `${what}-deprecation-without-sunset`
    for (const wrong of [undefined, 'soon', '2027-02-30x']) {
      expect(reportOf(deprecate(wrong)).toSorted()).toEqual(both('breaking', rule))
    }
    expect(reportOf(deprecate(daysAfter(89))).toSorted()).toEqual(
      both('breaking', (what) => `${what}-sunset-too-early`),
    )
    expect(reportOf(deprecate(daysAfter(90))).toSorted()).toEqual(
      both('additive', (what) => `${what}-deprecated`),
    )
  })

  // Rules: VER-9
  it('may not be removed before that date', () => {
    expect(reportOf(removal, deprecate(daysAfter(1))).toSorted()).toEqual(
      both('breaking', (what) => `${what}-removed-too-early`),
    )
  })

  // Source: VER-9: at least 90 days from the announcement, and only with a new path version.
  it('may be removed afterwards only where its path has a newer version', () => {
    const withPath = (path: string) => (api: Changeable) => {
      deprecate(TODAY)(api)
      api['paths'][path] = { get: { responses: {} } }
    }
    expect(reportOf(removal, deprecate(TODAY)).toSorted()).toEqual(
      both('breaking', (what) => `${what}-removed-without-new-version`),
    )
    expect(reportOf(removal, withPath('/v2/others')).toSorted()).toEqual(
      both('breaking', (what) => `${what}-removed-without-new-version`),
    )
    // The parameter is one of `/v1/things/{id}`, the field one of `/v1/things`.
    expect(reportOf(removal, withPath('/v2/things/{thing}')).toSorted()).toEqual([
      'additive deprecated-parameter-removed',
      'breaking field-removed-without-new-version',
    ])
    expect(reportOf(removal, withPath('/v2/things')).toSorted()).toEqual([
      'additive deprecated-field-removed',
      'breaking parameter-removed-without-new-version',
    ])
  })

  it('of an event is never removed: events have no path whose version could rise', () => {
    const gone = (api: Changeable) => schemas(api).Gone.properties
    const deprecateField = (api: Changeable) =>
      Object.assign(gone(api).id, { deprecated: true, 'x-sunset': daysBefore(100) })
    const remove = (api: Changeable) => {
      delete gone(api).id
      api['paths']['/v2/things'] = { get: { responses: {} } }
    }
    expect(reportOf(remove, deprecateField)).toContain('breaking field-removed-without-new-version')
  })

  it('may end later than announced, and not earlier', () => {
    expect(reportOf(deprecate(daysAfter(200)), deprecate(daysAfter(100)))).toEqual([])
    expect(reportOf(deprecate(daysAfter(99)), deprecate(daysAfter(100))).toSorted()).toEqual(
      both('breaking', (what) => `${what}-sunset-brought-forward`),
    )
  })

  it('may be reinstated, and needs a date as a new field too', () => {
    const reinstate = (api: Changeable) =>
      [tags(api).tags, thing(api).parameters[1]].map((part) => delete part.deprecated)
    expect(reportOf(reinstate, deprecate(daysAfter(100))).toSorted()).toEqual(
      both('additive', (what) => `${what}-deprecation-withdrawn`),
    )
    expect(reportOf((api) => (tags(api).old = { type: 'string', deprecated: true })).toSorted()).toEqual([
      'additive field-added',
      'breaking field-deprecation-without-sunset',
    ])
  })
})

describe('the gate on the description of this API', () => {
  const changed = (change: (api: Changeable) => void) => {
    const next = structuredClone(description()) as Changeable
    change(next)
    return compareDescriptions(description(), next as JsonObject, TODAY)
  }
  /** Only ends a test that hangs: hundreds of comparisons on a busy machine. */
  const WITHIN_MS = 600_000

  /** The changes of a description that differs at one place, and shares all other parts with the current one. */
  const changedAt = (path: ReadonlyArray<string>, change: (at: Changeable) => void) => {
    const next = { ...description() } as Changeable
    let at = next
    for (const name of path) {
      at[name] = Array.isArray(at[name]) ? [...at[name]] : { ...at[name] }
      at = at[name]
    }
    change(at)
    return compareDescriptions(description(), next as JsonObject, TODAY)
  }

  it('reports nothing when nothing changed', () => {
    expect(changed(() => undefined)).toEqual([])
  })

  it('reports a change in a component behind unchanged references', () => {
    const changes = changed((api) => {
      api['components'].schemas.Money.properties.amount.type = 'number'
    })
    const where = changes.map((change) => change.where)
    expect(where).toContain('GET /v1/messages → 200 application/json.data[].price.amount (string → number)')
    expect(where).toContain(
      'POST /v1/messages/batch → 202 application/json.results[].message.price.amount (string → number)',
    )
  })

  it('reaches every component from an operation or a webhook, so that it compares all of them', () => {
    const document = description()
    const reached = new Set<string>()
    const follow = (value: Json): void => {
      for (const [, target = ''] of JSON.stringify(value).matchAll(/"\$ref":"#\/([^"]*)"/gu)) {
        if (reached.has(target)) continue
        reached.add(target)
        follow(target.split('/').reduce<Json>((at, name) => (at as JsonObject)[name] ?? null, document))
      }
    }
    follow([document['paths'] ?? null, document['webhooks'] ?? null])
    const { headers, responses, schemas: named } = document['components'] as Record<string, JsonObject>
    expect([...reached].toSorted()).toEqual(
      [
        ...Object.keys(headers ?? {}).map((name) => `components/headers/${name}`),
        ...Object.keys(responses ?? {}).map((name) => `components/responses/${name}`),
        ...Object.keys(named ?? {}).map((name) => `components/schemas/${name}`),
      ].toSorted(),
    )
  })

  it('stops the removal of any webhook', () => {
    for (const type of Object.keys(description()['webhooks'] as JsonObject)) {
      const changes = changedAt(['webhooks'], (webhooks) => delete webhooks[type])
      expect(changes).toEqual([{ kind: 'breaking', rule: 'webhook-removed', where: `webhook POST ${type}` }])
    }
  })

  it(
    'stops the removal of any operation and of any field of any component',
    () => {
      const paths = description()['paths'] as JsonObject
      for (const [path, methods] of Object.entries(paths)) {
        for (const method of Object.keys(methods as JsonObject)) {
          const changes = changedAt(['paths', path], (item) => delete item[method])
          expect(changes).toEqual([
            { kind: 'breaking', rule: 'operation-removed', where: `${method.toUpperCase()} ${path}` },
          ])
        }
      }
      const schemas = (description()['components'] as JsonObject)['schemas'] as JsonObject
      for (const [name, schema] of Object.entries(schemas)) {
        for (const field of Object.keys((schema as JsonObject)['properties'] ?? {})) {
          const changes = changedAt(
            ['components', 'schemas', name, 'properties'],
            (fields) => delete fields[field],
          )
          expect([name, field, changes.some(({ kind }) => kind === 'breaking')]).toEqual([name, field, true])
        }
      }
    },
    WITHIN_MS,
  )

  it(
    'stops the removal of any enumeration value, and allows new values',
    () => {
      const enumerations: Array<ReadonlyArray<string>> = []
      const find = (value: Json, path: ReadonlyArray<string>): void => {
        if (typeof value !== 'object' || value === null) return
        for (const [name, inner] of Object.entries(value)) {
          if (name === 'enum') enumerations.push([...path, name])
          else if (name !== 'examples') find(inner as Json, [...path, name])
        }
      }
      find(description(), [])
      expect(enumerations.length).toBeGreaterThan(20)
      for (const path of enumerations) {
        const lost = changedAt(path, (values) => values['shift']())
        expect([path.join('.'), lost.some(({ kind }) => kind === 'breaking')]).toEqual([path.join('.'), true])
        // A value that selects an alternative of a union is a constant, and no enumeration.
        const isConstant =
          (path.reduce<any>((at, name) => at[name], description()) as Array<string>).length === 1
        if (isConstant) continue
        const grown = changedAt(path, (values) => values['push']('something_new'))
        expect([path.join('.'), new Set(grown.map(({ kind }) => kind))]).toEqual([
          path.join('.'),
          new Set(['additive']),
        ])
      }
    },
    WITHIN_MS,
  )
})
