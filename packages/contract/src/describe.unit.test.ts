import { readFileSync } from 'node:fs'
import { EVENT_TYPES, STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import { describe, expect, it } from 'vitest'
import { CONTRACT_VERSION, ROUTES } from './api.ts'
import { description, descriptionText } from './describe.ts'
import { ERROR_CODES, ERRORS } from './errors.ts'
import type { Json, JsonObject } from './validate.ts'
import {
  Account,
  AcceptedMessage,
  ErrorBody,
  Event,
  Message,
  WebhookEndpoint,
  WebhookEndpointWithSecret,
} from './wire.ts'

/** Walks to a member; fails the test where there is none. */
const at = (value: Json, ...path: ReadonlyArray<string>): Json =>
  path.reduce<Json>((inner, name) => {
    const found = (inner as JsonObject | null)?.[name]
    if (found === undefined) throw new Error(`nothing at ${path.join('.')}`)
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

/** Every object in the document. */
const objects = (value: Json): ReadonlyArray<JsonObject> => {
  if (Array.isArray(value)) return value.flatMap(objects)
  if (typeof value !== 'object' || value === null) return []
  return [value as JsonObject, ...Object.values(value).flatMap((inner) => objects(inner as Json))]
}

describe('the description', () => {
  it('is the committed one: else run node packages/contract/scripts/generate.ts', () => {
    expect(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8')).toBe(descriptionText())
  })

  it('is OpenAPI 3.1 of the contract version', () => {
    expect(at(document, 'openapi')).toBe('3.1.0')
    expect(at(document, 'info', 'version')).toBe(CONTRACT_VERSION)
    expect(CONTRACT_VERSION).toBe('0.3.3')
  })

  it('has every operation of the API, with texts and an id of its own', () => {
    expect(operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`).toSorted()).toEqual(
      ROUTES.map((route) => `${route.method} ${route.path.replace(':id', '{id}')}`).toSorted(),
    )
    for (const { operation } of operations) {
      expect(operation['summary']).toBeTypeOf('string')
      expect(operation['description']).toBeTypeOf('string')
    }
    expect(new Set(operations.map(({ operation }) => operation['operationId'])).size).toBe(operations.length)
  })

  it('wants a bearer key for everything but itself', () => {
    for (const { path, operation } of operations) {
      expect(operation['security']).toEqual(path === '/v1/openapi.json' ? [] : [{ bearer: [] }])
    }
    expect(at(document, 'components', 'securitySchemes', 'bearer')).toMatchObject({
      type: 'http',
      scheme: 'bearer',
    })
  })

  it('leaves objects open, so that fields may be added', () => {
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

  it('has no reference to nothing', () => {
    for (const object of objects(document)) {
      const target = object['$ref']
      if (typeof target === 'string') expect(at(document, ...target.slice(2).split('/'))).toBeTypeOf('object')
    }
  })

  it('declares the failures of every operation with a key, and their headers', () => {
    for (const { operation } of operations.filter(({ path }) => path !== '/v1/openapi.json')) {
      const responses = operation['responses'] as JsonObject
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(['401', '429', '500', '503']))
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

  it('says for a send which codes come under which status', () => {
    const responses = at(document, 'paths', '/v1/messages', 'post', 'responses') as JsonObject
    for (const code of ERROR_CODES) {
      const told = (at(responses, '422', 'description') as string).includes(`\`${code}\``)
      const isOfSend =
        !/^(?:webhook_|duplicate_|batch_|template_invalid)/u.test(code) && ERRORS[code].status === 422
      expect([code, told]).toEqual([code, isOfSend])
    }
    expect(at(responses, '503', 'description')).toContain('`provider_unavailable`')
    expect(at(responses, '503', 'headers')).toHaveProperty('Retry-After')
  })

  it('names every code, event type and status', () => {
    expect(at(document, 'components', 'schemas', 'ErrorDetail', 'properties', 'code', 'enum')).toEqual(
      ERROR_CODES,
    )
    expect(at(document, 'components', 'schemas', 'Event', 'properties', 'type', 'enum')).toEqual(EVENT_TYPES)
    expect(at(document, 'components', 'schemas', 'Message', 'properties', 'status', 'enum')).toEqual(STATUSES)
  })

  it('gives page sizes as numbers', () => {
    const parameters = at(document, 'paths', '/v1/events', 'get', 'parameters') as ReadonlyArray<JsonObject>
    expect(parameters.find((parameter) => parameter['name'] === 'limit')?.['schema']).toEqual({
      type: 'integer',
      minimum: 1,
      maximum: 1000,
      default: 100,
    })
  })

  it('has examples that are what they are examples of', () => {
    const schemas = {
      Account,
      AcceptedMessage,
      Error: ErrorBody,
      Event,
      Message,
      WebhookEndpoint,
      WebhookEndpointWithSecret,
    }
    for (const [name, schema] of Object.entries(schemas)) {
      const examples = at(document, 'components', 'schemas', name, 'examples') as ReadonlyArray<Json>
      expect(examples.length).toBeGreaterThan(0)
      for (const example of examples) expect(Schema.is(schema as Schema.Codec<unknown>)(example)).toBe(true)
    }
  })
})
