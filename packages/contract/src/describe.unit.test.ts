import { readFileSync } from 'node:fs'
import { EVENT_TYPES, STATUSES } from '@hub/domain'
import { Result, Schema } from 'effect'
import { describe, expect, it } from 'vitest'
import { CONTRACT_VERSION, ROUTES } from './api/hub-api.ts'
import { description, descriptionText } from './describe.ts'
import { ERROR_CODES, ERRORS } from './errors.ts'
import {
  decodeBatch,
  decodeRender,
  decodeSenderCreate,
  decodeSendRequest,
  decodeTemplateCreate,
  type Json,
  type JsonObject,
  STATS_CSV_EXAMPLE,
} from './index.ts'
import * as contract from './index.ts'
import * as common from './schemas/common.ts'
import { StatusChange } from './schemas/message-fields.ts'

/** A nested member; fails the test without one. */
const at = (value: Json, ...path: ReadonlyArray<string>): Json =>
  path.reduce<Json>((inner, name) => {
    const found = (inner as JsonObject | null)?.[name]
    if (found === undefined) throw new Error(`the description has no member ${path.join('.')}`)
    return found
  }, value)

const document = description()
const operations = Object.entries(at(document, 'paths') as JsonObject).flatMap(([path, methods]) =>
  Object.entries(methods as JsonObject).map(([method, operation]) => ({
    path,
    method,
    operation: operation as JsonObject,
  })),
)

/** The answers of an operation by status, without references. */
const responsesOf = (operation: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(operation['responses'] as JsonObject).map(([status, response]) => {
      const target = (response as JsonObject)['$ref']
      return [status, typeof target === 'string' ? at(document, ...target.slice(2).split('/')) : response]
    }),
  )

/** All objects of a document. */
const objects = (value: Json): ReadonlyArray<JsonObject> => {
  if (Array.isArray(value)) return value.flatMap(objects)
  if (typeof value !== 'object' || value === null) return []
  return [value as JsonObject, ...Object.values(value).flatMap((inner) => objects(inner as Json))]
}

describe('the description', () => {
  it('equals openapi.json (else run npm run generate)', () => {
    expect(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8')).toBe(descriptionText())
  })

  // Rules: VER-1, VER-7
  it('is an OpenAPI 3.1 document with the contract version', () => {
    expect(at(document, 'openapi')).toBe('3.1.0')
    expect(at(document, 'info', 'version')).toBe(CONTRACT_VERSION)
    expect(CONTRACT_VERSION).toBe('0.4.0')
  })

  // Rules: VER-1
  it('contains each operation of the API, with texts and a unique id', () => {
    expect(operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`).toSorted()).toEqual(
      ROUTES.map((route) => `${route.method} ${route.path.replaceAll(/:([a-z]+)/gu, '{$1}')}`).toSorted(),
    )
    for (const { operation } of operations) {
      expect(operation['summary']).toBeTypeOf('string')
      expect(operation['description']).toBeTypeOf('string')
    }
    expect(new Set(operations.map(({ operation }) => operation['operationId'])).size).toBe(operations.length)
  })

  // Rules: AUTH-1, VER-1
  it('requires a bearer key for all operations except its own', () => {
    for (const { path, operation } of operations) {
      expect(operation['security']).toEqual(path === '/v1/openapi.json' ? [] : [{ bearer: [] }])
    }
    expect(at(document, 'components', 'securitySchemes', 'bearer')).toMatchObject({
      type: 'http',
      scheme: 'bearer',
    })
  })

  // Rules: VER-4
  it('has only open objects, so that fields may be added', () => {
    expect(objects(document).filter((object) => object['additionalProperties'] === false)).toEqual([])
  })

  it('keeps patterns', () => {
    expect(at(document, 'components', 'schemas', 'SendRequest', 'properties', 'to', 'pattern')).toBe(
      '^\\+79\\d{9}$',
    )
    expect(at(document, 'components', 'schemas', 'Message', 'properties', 'created_at', 'pattern')).toContain(
      'T[0-9]{2}',
    )
  })

  it('contains no dangling reference', () => {
    for (const object of objects(document)) {
      const target = object['$ref']
      if (typeof target === 'string') expect(at(document, ...target.slice(2).split('/'))).toBeTypeOf('object')
    }
  })

  // Rules: VER-6
  it('declares the failures and their headers of each operation with a key', () => {
    for (const { operation } of operations.filter(({ path }) => path !== '/v1/openapi.json')) {
      const responses = responsesOf(operation)
      expect(Object.keys(responses)).toEqual(
        expect.arrayContaining(['400', '401', '415', '422', '429', '500', '503']),
      )
      for (const [status, response] of Object.entries(responses)) {
        expect(at(response as Json, 'headers')).toHaveProperty('Request-Id')
        if (Number(status) < 400) continue
        expect(at(response as Json, 'content', 'application/json', 'schema')).toEqual({
          $ref: '#/components/schemas/Error',
        })
        expect(at(response as Json, 'description')).toMatch(/^`[a-z_]+`: /u)
      }
      expect(at(responses, '429', 'headers')).toHaveProperty('Retry-After')
      expect(at(responses, '401', 'headers')).not.toHaveProperty('X-RateLimit-Limit')
    }
  })

  // Rules: VER-6, HTTP-2, ERR-19
  it('declares for every operation what HTTP itself can fail with', () => {
    // Source: RFC 9110, 15.5.1 (400), 15.5.6 (405, with Allow), 15.5.9 (408), 15.5.14 (413), 15.6.1 (500),
    // 15.6.2 (501), 15.6.6 (505); RFC 6585, 5 (431).
    const statuses = ['400', '405', '408', '413', '431', '500', '501', '505']
    for (const { operation } of operations) {
      const responses = responsesOf(operation)
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(statuses))
      expect(Object.keys(at(responses, '405', 'headers') as JsonObject)).toEqual(['Request-Id', 'Allow'])
    }
  })

  // Rules: VER-6, IDEM-1
  it('declares Idempotency-Key for exactly the POSTs, and which answers may be replays', () => {
    for (const { method, operation } of operations) {
      const parameters = operation['parameters'] as ReadonlyArray<JsonObject>
      const key = parameters.find((parameter) => parameter['name'] === 'Idempotency-Key')
      expect([operation['operationId'], key !== undefined]).toEqual([
        operation['operationId'],
        method === 'post',
      ])
      for (const [status, response] of Object.entries(responsesOf(operation))) {
        const replayed = Object.hasOwn(at(response as Json, 'headers') as JsonObject, 'Idempotent-Replayed')
        const stored = method === 'post' && /^(?:2..|404|422)$/u.test(status)
        expect([operation['operationId'], status, replayed]).toEqual([
          operation['operationId'],
          status,
          stored,
        ])
      }
    }
  })

  it('declares rate headers for all answers after the rate check', () => {
    const names = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']
    for (const { operation, path } of operations) {
      for (const [status, response] of Object.entries(responsesOf(operation))) {
        const told = Object.keys(at(response as Json, 'headers') as JsonObject).filter((name) =>
          name.startsWith('X-RateLimit-'),
        )
        const before = ['400', '401', '405', '408', '413', '415', '431', '501', '505']
        const counted = path !== '/v1/openapi.json' && !before.includes(status)
        expect([path, status, told]).toEqual([path, status, counted ? names : []])
      }
    }
  })

  // Rules: VER-6
  it('declares the specific error codes of each operation', () => {
    const SHARED = new Set([
      'invalid_api_key',
      'insufficient_scope',
      'rate_limited',
      'internal_error',
      'idempotency_conflict',
      'idempotency_key_reused',
      'payload_too_large',
      'method_not_allowed',
      'unsupported_media_type',
      'overloaded',
      'invalid_parameter',
    ])
    const own = (path: string, method: string): ReadonlyArray<string> => {
      return Object.values(responsesOf(at(document, 'paths', path, method) as JsonObject))
        .flatMap((response) => [
          ...(at(response as Json, 'description') as string).matchAll(/^`([a-z_]+)`: /gmu),
        ])
        .map((match) => match[1] ?? '')
        .filter((code) => !SHARED.has(code))
        .toSorted()
    }
    const rendering = [
      'template_text_too_long',
      'template_variable_invalid',
      'template_variable_missing',
      'template_variable_unknown',
    ]
    expect(own('/v1/messages/batch', 'post')).toEqual([
      'batch_too_large',
      'hub_daily_limit_reached',
      'send_at_not_supported',
    ])
    expect(own('/v1/messages/estimate', 'post')).toEqual(
      [
        'batch_too_large',
        'recipient_invalid',
        'send_at_not_supported',
        'template_class_mismatch',
        'template_declined',
        'template_not_approved',
        'template_not_found',
        ...rendering,
      ].toSorted(),
    )
    expect(own('/v1/messages', 'get')).toEqual(['not_found'])
    expect(own('/v1/batches/{id}', 'get')).toEqual(['not_found'])
    expect(own('/v1/templates', 'post')).toEqual([
      'duplicate_rejected',
      'sender_not_registered',
      'template_invalid',
    ])
    expect(own('/v1/templates/{id}/render', 'post')).toEqual(['not_found', ...rendering].toSorted())
    expect(own('/v1/senders', 'post')).toEqual(['duplicate_rejected'])
    expect(own('/v1/stats', 'get')).toEqual([])
  })

  // Rules: VER-6
  it('declares 202 for acceptances, 201 for creations, and 200 otherwise', () => {
    const told = operations.map(({ method, operation, path }) => [
      `${method} ${path}`,
      ...Object.keys(operation['responses'] as JsonObject).filter((status) => Number(status) < 300),
    ])
    const other: Readonly<Record<string, string>> = {
      'post /v1/messages': '202',
      'post /v1/messages/batch': '202',
      'post /v1/templates': '201',
      'post /v1/senders': '201',
      'post /v1/webhook_endpoints': '201',
    }
    expect(told).toEqual(told.map(([where = '']) => [where, other[where] ?? '200']))
  })

  it('declares the media types of answers: JSON, and CSV for a summary', () => {
    const told = operations.flatMap(({ method, operation, path }) =>
      Object.entries(responsesOf(operation)).flatMap(([status, response]) => {
        // 304 has no body.
        if (status === '304') return []
        const types = Object.keys(at(response, 'content') as JsonObject)
        return types.join() === 'application/json' ? [] : [[method, path, status, ...types]]
      }),
    )
    expect(told).toEqual([['get', '/v1/stats', '200', 'application/json', 'text/csv']])
    const csv = at(document, 'paths', '/v1/stats', 'get', 'responses', '200', 'content', 'text/csv')
    expect(csv).toMatchObject({ schema: { type: 'string' }, example: STATS_CSV_EXAMPLE })
  })

  // Rules: VER-2
  it('declares 304 for the description, which has an ETag, and for nothing else', () => {
    const told = operations.flatMap(({ operation, path }) =>
      Object.hasOwn(operation['responses'] as JsonObject, '304') ? [path] : [],
    )
    expect(told).toEqual(['/v1/openapi.json'])
  })

  // Rules: VER-6
  it('lists the error codes of a send by status', () => {
    const responses = at(document, 'paths', '/v1/messages', 'post', 'responses') as JsonObject
    for (const code of ERROR_CODES) {
      const told = (at(responses, '422', 'description') as string).includes(`\`${code}\``)
      const isOfSend =
        !/^(?:webhook_|duplicate_|batch_|deletion_|template_invalid)/u.test(code) &&
        ERRORS[code].status === 422
      expect([code, told]).toEqual([code, isOfSend])
    }
    expect(at(responses, '503', 'description')).toContain('`provider_unavailable`')
    expect(at(responses, '503', 'description')).toContain('`overloaded`')
    expect(at(responses, '503', 'headers')).toHaveProperty('Retry-After')
  })

  it('contains all error codes, event types and statuses', () => {
    expect(
      at(document, 'components', 'schemas', 'ErrorDetail', 'properties', 'code', 'anyOf', '0', 'enum'),
    ).toEqual(ERROR_CODES)
    expect(
      at(document, 'components', 'schemas', 'Event', 'properties', 'type', 'anyOf', '0', 'enum'),
    ).toEqual(EVENT_TYPES)
    expect(
      at(document, 'components', 'schemas', 'Message', 'properties', 'status', 'anyOf', '0', 'enum'),
    ).toEqual(STATUSES)
  })

  // Rules: LIST-2
  it('describes page sizes as integers', () => {
    const pages = operations.flatMap(({ method, operation, path }) =>
      (operation['parameters'] as ReadonlyArray<JsonObject>)
        .filter((parameter) => parameter['name'] === 'limit')
        .map(({ description: text, schema }) => [`${method} ${path}`, text, schema] as const),
    )
    const long = { type: 'integer', format: 'int32', minimum: 1, maximum: 1000, default: 100 }
    const short = { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 }
    expect(pages).toEqual([
      [
        'get /v1/messages',
        'Size of the page: up to 100, and 20 when absent. With `batch`: up to 1000, and 100 when absent.',
        long,
      ],
      ['get /v1/templates', 'Size of the page; 20 when absent.', short],
      ['get /v1/senders', 'Size of the page; 20 when absent.', short],
      ['get /v1/webhook_endpoints', 'Size of the page; 20 when absent.', short],
      ['get /v1/webhook_endpoints/{id}/deliveries', 'Size of the page; 20 when absent.', short],
      ['get /v1/events', 'Size of the page; 100 when absent.', long],
    ])
  })

  // Rules: VER-3
  it('states the format of every number, its license and its contact', () => {
    for (const schema of objects(document)) {
      if (schema['type'] === 'integer' || schema['type'] === 'number') {
        expect(schema['format']).toMatch(/^(?:int32|int64|double)$/u)
      }
    }
    // openapi-generator refuses a license without identifier, and a contact with a relative URL.
    expect(at(document, 'info', 'license')).toEqual({
      name: 'Proprietary',
      identifier: 'LicenseRef-Proprietary',
    })
    expect(at(document, 'info', 'contact')).toEqual({ name: expect.any(String) })
  })

  // Rules: VER-3
  it('states the form of every moment, day and identifier that the hub sends', () => {
    const schema = (...path: ReadonlyArray<string>) => at(document, 'components', 'schemas', ...path)
    // Source: the formats of JSON Schema 2020-12, validation, 7.3.1 and 7.3.5.
    expect(schema('Message', 'properties', 'created_at', 'format')).toBe('date-time')
    expect(schema('Stats', 'properties', 'from', 'format')).toBe('date')
    expect(schema('ErrorDetail', 'properties', 'doc_url', 'format')).toBe('uri')
    expect(schema('BatchResultDuplicate', 'properties', 'message_url', 'format')).toBe('uri-reference')
    // A request must have exactly the form of the pattern, which is narrower than the format.
    for (const parameter of operations.flatMap(
      ({ operation }) => operation['parameters'] as ReadonlyArray<Json>,
    )) {
      const { format, type } = at(parameter, 'schema') as JsonObject
      if (type === 'string') expect(format).toBeUndefined()
    }
    const forms: Array<string> = []
    for (const [name, component] of Object.entries(at(document, 'components', 'schemas') as JsonObject)) {
      const { id } = ((component as JsonObject)['properties'] ?? {}) as JsonObject
      if (id !== undefined) forms.push(`${name} ${JSON.stringify(id)}`)
    }
    expect(forms.length).toBeGreaterThan(20)
    // The digits of Crockford's base32, which has no i, l, o and u.
    expect(forms.filter((form) => !/"\^[a-z]+_\[0-7\]\[0-9a-hjkmnp-tv-z\]\{25\}\$"/u.test(form))).toEqual([])
  })

  it('has the webhooks under a tag of their own, so that no generated class replaces that of the events', () => {
    const tagsOf = (methods: Json): ReadonlyArray<string> =>
      Object.values(methods as JsonObject).flatMap(
        (operation) => at(operation, 'tags') as ReadonlyArray<string>,
      )
    const ofPaths = new Set(operations.flatMap(({ operation }) => operation['tags'] as ReadonlyArray<string>))
    const ofWebhooks = Object.values(at(document, 'webhooks') as JsonObject).flatMap(tagsOf)
    expect(ofWebhooks.filter((tag) => ofPaths.has(tag))).toEqual([])
    const declared = (document['tags'] as ReadonlyArray<JsonObject>).map(({ name }) => name)
    expect(new Set(declared)).toEqual(new Set([...ofPaths, ...ofWebhooks]))
    expect(new Set(declared).size).toBe(declared.length)
  })

  // Rules: VER-3
  it('has an example for every parameter', () => {
    for (const { method, operation, path } of operations) {
      for (const { example, name } of operation['parameters'] as ReadonlyArray<JsonObject>) {
        expect([method, path, name, example === undefined || example === '']).toEqual([
          method,
          path,
          name,
          false,
        ])
      }
    }
  })

  // Rules: VER-4
  it('opens the enumerations of responses, and closes those of requests', () => {
    const status = at(document, 'components', 'schemas', 'Message', 'properties', 'status', 'anyOf')
    expect(status).toEqual([{ type: 'string', enum: [...STATUSES] }, { type: 'string' }])
    const reason = at(document, 'components', 'schemas', 'Message', 'properties', 'reason_code', 'anyOf')
    expect((reason as ReadonlyArray<JsonObject>).map(({ type }) => type)).toEqual([
      'string',
      'string',
      'null',
    ])
    expect(at(document, 'components', 'schemas', 'SendRequest', 'properties', 'class', 'enum')).toEqual([
      'otp',
      'service',
    ])
    // Discriminators and types of objects stay constants.
    expect(
      at(document, 'components', 'schemas', 'BatchResultAccepted', 'properties', 'result', 'enum'),
    ).toEqual(['accepted'])
  })

  // Rules: VER-5
  it('describes each event as a webhook with an example of its type', () => {
    const webhooks = at(document, 'webhooks') as JsonObject
    expect(Object.keys(webhooks)).toEqual([...EVENT_TYPES])
    for (const type of EVENT_TYPES) {
      const content = at(webhooks, type, 'post', 'requestBody', 'content', 'application/json')
      const [event] = at(content, 'examples', type, 'value') as ReadonlyArray<JsonObject>
      expect(event).toMatchObject({ object: 'event', type })
      const subject = type.split('.')[0] ?? ''
      // Test mode moderates nothing and has no spend limit.
      const isLiveOnly = ['template', 'sender', 'account'].includes(subject)
      expect(at(event as JsonObject, 'mode')).toBe(isLiveOnly ? 'live' : 'test')
      expect(Schema.is(contract.KnownEvent)(event)).toBe(true)
    }
  })

  // Rules: VER-5
  it('has a schema with a name for each type of event, which the discriminator selects', () => {
    const schemas = at(document, 'components', 'schemas') as JsonObject
    const { discriminator, oneOf } = schemas['KnownEvent'] as JsonObject
    const mapping = at(discriminator ?? null, 'mapping') as JsonObject
    expect(at(discriminator ?? null, 'propertyName')).toBe('type')
    expect(Object.keys(mapping)).toEqual([...EVENT_TYPES])
    expect(oneOf).toEqual(Object.values(mapping).map(($ref) => ({ $ref })))
    for (const [type, target] of Object.entries(mapping)) {
      const schema = schemas[(target as string).slice('#/components/schemas/'.length)] ?? null
      expect(at(schema, 'properties', 'type', 'enum')).toEqual([type])
      expect(at(schema, 'properties', 'data', 'properties', 'object', '$ref')).toMatch(
        /^#\/components\/schemas\/[A-Z]/u,
      )
    }
    // A receiver also gets types that were added later.
    expect(at(document, 'components', 'schemas', 'EventBatch', 'items', 'anyOf')).toEqual(
      ['KnownEvent', 'Event'].map((name) => ({ $ref: `#/components/schemas/${name}` })),
    )
  })

  it('has a discriminator for the results of a batch', () => {
    const { discriminator, oneOf } = at(document, 'components', 'schemas', 'BatchResult') as JsonObject
    const reference = (name: string) => `#/components/schemas/BatchResult${name}`
    expect(oneOf).toEqual(['Accepted', 'Duplicate', 'Rejected'].map((name) => ({ $ref: reference(name) })))
    expect(discriminator).toEqual({
      propertyName: 'result',
      mapping: {
        accepted: reference('Accepted'),
        duplicate: reference('Duplicate'),
        rejected: reference('Rejected'),
      },
    })
  })

  it('has examples that match their schemas', () => {
    const named: Readonly<Record<string, unknown>> = {
      ...contract,
      ...common,
      StatusChange,
      Error: common.ErrorBody,
    }
    const shown: Array<string> = []
    for (const [name, component] of Object.entries(at(document, 'components', 'schemas') as JsonObject)) {
      const examples = (component as JsonObject)['examples'] as ReadonlyArray<Json> | undefined
      for (const example of examples ?? []) {
        expect([name, Schema.is(named[name] as Schema.Codec<unknown>)(example)]).toEqual([name, true])
        shown.push(name)
      }
    }
    // All request and response bodies, except lists and bodies that are part of another example.
    expect(shown).toEqual(
      expect.arrayContaining([
        'AcceptedBatch',
        'AcceptedMessage',
        'Account',
        'Batch',
        'BatchRequest',
        'DeletedSender',
        'DeletedTemplate',
        'DeletedWebhookEndpoint',
        'Error',
        'Estimate',
        'EstimateBatch',
        'Event',
        'Message',
        'RenderRequest',
        'RenderedText',
        'SendRequest',
        'Sender',
        'SenderCreate',
        'Stats',
        'Template',
        'TemplateCreate',
        'WebhookDelivery',
        'WebhookEndpoint',
        'WebhookEndpointCreate',
        'WebhookEndpointWithSecret',
      ]),
    )
  })

  it('has request examples that pass the checks', () => {
    const example = (name: string) =>
      (at(document, 'components', 'schemas', name, 'examples') as ReadonlyArray<JsonObject>)[0] ?? {}
    expect(Result.isSuccess(decodeSendRequest(example('SendRequest')))).toBe(true)
    const batch = Result.getOrThrow(decodeBatch(example('BatchRequest'), 1000))
    expect(batch.map(({ send }) => Result.isSuccess(send))).toEqual([true, true])
    expect(Result.isSuccess(decodeTemplateCreate(example('TemplateCreate')))).toBe(true)
    expect(Result.isSuccess(decodeSenderCreate(example('SenderCreate')))).toBe(true)
    expect(Result.isSuccess(decodeRender(example('RenderRequest')))).toBe(true)
  })
})
