/**
 * Generates the API description (OpenAPI 3.1) from the definition in `api/`. It corrects the output
 * of Effect's generator (`clean-description.ts`): query numbers are numbers, headers have their usual
 * spelling. The same definition always gives the same bytes.
 */
import { OpenApi } from 'effect/http-api'
import {
  exampleOf,
  numberFormats,
  openEnumerations,
  rewriteSchemas,
  schemasOfRequests,
} from './describe-details.ts'
import { CALLBACKS, describeWebhooks, EVENT_BATCH, WEBHOOKS_TAG } from './describe-webhooks.ts'
import { HubApi, ROUTES } from './api/hub-api.ts'
import { HTTP_FAILURE_RESPONSES } from './api/http-failures.ts'
import { LIST_LIMITS, LONG_LIST_LIMITS } from './limits.ts'
import { cleanDescription, rewrite } from './clean-description.ts'
import { idPattern, REQUEST_ID } from './schemas/fields.ts'
import { isJsonObject, type Json, type JsonObject } from './json.ts'

const HEADERS: JsonObject = {
  'Request-Id': {
    description: 'Identifier of this request, the same as in an error and in our logs. Tell it to support.',
    required: true,
    schema: {
      type: 'string',
      pattern: idPattern('req_').source,
      examples: [REQUEST_ID],
    },
  },
  'Retry-After': {
    description:
      'Whole seconds to wait before a retry; the same as `retry_after` in the error, and absent with it.',
    schema: { type: 'integer', minimum: 1 },
  },
  'X-RateLimit-Limit': {
    description:
      'Requests per second that the key may make. The rate headers are absent together where nothing was counted.',
    schema: { type: 'integer', minimum: 1 },
  },
  'X-RateLimit-Remaining': {
    description: 'Requests that the key may make at once.',
    schema: { type: 'integer', minimum: 0 },
  },
  'X-RateLimit-Reset': {
    description: 'Seconds until the key may make its full number at once, with one decimal at most.',
    schema: { type: 'number', minimum: 0 },
  },
  'RateLimit-Policy': {
    description:
      'The request rate as the IETF draft of the RateLimit headers writes it: `q` requests in `w` seconds.',
    schema: { type: 'string', examples: ['"key";q=100;w=1'] },
  },
  RateLimit: {
    description:
      'What is left of the request rate, as the IETF draft writes it: `r` requests now, and the full number in `t` seconds.',
    schema: { type: 'string', examples: ['"key";r=99;t=1'] },
  },
  'Hub-Warning': {
    description:
      'With a test key: a parameter that the operation does not know, or what is doubtful in a template, one header line for ' +
      'each, at most 5. A live key gets none.',
    schema: { type: 'string', examples: ['unknown parameter "colour"'] },
  },
  Allow: {
    description: 'The methods that the path takes.',
    required: true,
    schema: { type: 'string', examples: ['GET, HEAD, POST'] },
  },
  'WWW-Authenticate': {
    description:
      'The authentication scheme of the API. A 403 also names the scope that the key does not have.',
    schema: { type: 'string', examples: ['Bearer realm="hub"'] },
  },
  'Idempotent-Replayed': {
    description:
      'Present when this is the stored answer of an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
  },
}

/** Only of deprecated operations. */
const DEPRECATION_HEADERS: JsonObject = {
  Deprecation: {
    description: 'When the deprecation of this operation was announced: `@` and Unix seconds (RFC 9745).',
    schema: { type: 'string', pattern: '^@[0-9]+$', examples: ['@1688083200'] },
  },
  Sunset: {
    description: 'From when this operation may be gone, as an HTTP date (RFC 8594).',
    schema: { type: 'string', examples: ['Sun, 30 Jun 2024 00:00:00 GMT'] },
  },
}

/** Page sizes by operation. The generator would describe a query integer as a string. */
const PAGES: Readonly<Record<string, { readonly max: number; readonly default: number }>> = {
  'messages.list': LONG_LIST_LIMITS,
  'templates.list': LIST_LIMITS,
  'senders.list': LIST_LIMITS,
  'webhook_endpoints.list': LIST_LIMITS,
  'webhook_endpoints.deliveries': LIST_LIMITS,
  'events.list': LONG_LIST_LIMITS,
}

/**
 * Where the page size depends on other parameters. The schema then has those of the longest page, because
 * a schema cannot say it.
 */
const PAGE_TEXTS: Readonly<Record<string, string>> = {
  'messages.list': `Size of the page: up to ${LIST_LIMITS.max}, and ${LIST_LIMITS.default} when absent. With \`batch\`: up to ${LONG_LIST_LIMITS.max}, and ${LONG_LIST_LIMITS.default} when absent.`,
}

/** The discriminator of schemas with alternatives, by name. Client generators use it. */
const DISCRIMINATORS: Readonly<Record<string, string>> = {
  BatchResult: 'result',
  KnownEvent: 'type',
}

const HEADER_SPELLING: Readonly<Record<string, string>> = { 'idempotency-key': 'Idempotency-Key' }

/**
 * Adds the discriminator: which value of `propertyName` belongs to which alternative. Each value belongs to
 * one, so the union is a `oneOf`. The generator writes `anyOf` where a string has a maximum length, because
 * it counts the length in other units.
 */
const discriminate = (schemas: JsonObject, schema: JsonObject, propertyName: string): JsonObject => {
  const { anyOf, oneOf, ...rest } = schema
  const alternatives = oneOf ?? anyOf
  if (!Array.isArray(alternatives)) return schema
  const mapping: Record<string, Json> = {}
  for (const alternative of alternatives) {
    const target = isJsonObject(alternative) ? alternative['$ref'] : undefined
    if (typeof target !== 'string') continue
    const named = schemas[target.slice('#/components/schemas/'.length)]
    const fields = isJsonObject(named) ? named['properties'] : undefined
    const field = isJsonObject(fields) ? fields[propertyName] : undefined
    const values = isJsonObject(field) ? field['enum'] : undefined
    if (Array.isArray(values) && typeof values[0] === 'string') mapping[values[0]] = target
  }
  return { ...rest, oneOf: alternatives, discriminator: { propertyName, mapping } }
}

const discriminated = (schemas: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => {
      const propertyName = DISCRIMINATORS[name]
      return [
        name,
        propertyName !== undefined && isJsonObject(schema)
          ? discriminate(schemas, schema, propertyName)
          : schema,
      ]
    }),
  )

const describeParameter = (operationId: string, parameter: JsonObject): JsonObject => {
  const name = parameter['name']
  const schema = parameter['schema']
  const { description, ...plain } = isJsonObject(schema) ? schema : {}
  const page = name === 'limit' ? PAGES[operationId] : undefined
  const spelled = typeof name === 'string' ? (HEADER_SPELLING[name] ?? name) : ''
  const example = exampleOf(operationId, spelled, plain)
  const text =
    page === undefined
      ? description
      : (PAGE_TEXTS[operationId] ?? `Size of the page; ${page.default} when absent.`)
  return {
    name: spelled,
    in: parameter['in'] ?? '',
    ...(text === undefined ? undefined : { description: text }),
    required: parameter['required'] ?? false,
    ...(example === undefined ? undefined : { example }),
    schema:
      page === undefined ? plain : { type: 'integer', minimum: 1, maximum: page.max, default: page.default },
  }
}

const describeOperation = (operation: JsonObject): JsonObject => {
  const { operationId, parameters } = operation
  if (typeof operationId !== 'string') return operation
  return {
    ...operation,
    parameters: Array.isArray(parameters)
      ? parameters.filter(isJsonObject).map((parameter) => describeParameter(operationId, parameter))
      : [],
  }
}

/** Adds the formats of numbers, and opens the enumerations of what only responses contain. */
const detailedSchemas = (paths: Json, schemas: JsonObject): JsonObject => {
  const closed = schemasOfRequests(paths, schemas)
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => {
      const formatted = rewriteSchemas(schema, numberFormats(name.startsWith('Stats') ? 'int64' : 'int32'))
      return [name, closed.has(name) ? formatted : rewriteSchemas(formatted, openEnumerations)]
    }),
  )
}

/**
 * Adds formats and callbacks, and opens the enumerations of responses. Callbacks come last: their bodies are from the
 * hub, so the steps before would take them for requests of clients.
 */
const detailedPaths = (paths: Json): Json =>
  rewrite(rewriteSchemas(paths, numberFormats('int32')), (object) =>
    object['operationId'] === undefined || object['responses'] === undefined
      ? object
      : {
          ...object,
          responses: rewriteSchemas(object['responses'], openEnumerations),
          ...(object['operationId'] === 'webhook_endpoints.create' ? { callbacks: CALLBACKS } : {}),
        },
  )

/** Without a URL: each hub has its own address, and validators refuse a relative one here. */
const CONTACT = { name: 'The team that runs this hub' }
/**
 * The hub serves one company, so the description is not licensed to others. Some validators require an
 * identifier or a URL.
 */
export const LICENSE = { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' }

const generate = (): JsonObject => {
  // Through JSON, because the type of the generator's result does not fit the steps below.
  const generated = JSON.parse(JSON.stringify(OpenApi.fromApi(HubApi))) as {
    readonly info: JsonObject
    readonly tags: ReadonlyArray<Json>
    readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>
    readonly components: { readonly schemas: JsonObject; readonly securitySchemes: JsonObject }
  }
  const paths = Object.fromEntries(
    Object.entries(generated.paths).map(([path, methods]) => [
      path,
      Object.fromEntries(
        Object.entries(methods).map(([method, operation]) => [method, describeOperation(operation)]),
      ),
    ]),
  )
  const folded = cleanDescription(paths, generated.components.schemas)
  const schemas = detailedSchemas(
    folded.document,
    discriminated({ ...folded.schemas, EventBatch: EVENT_BATCH }),
  )
  return {
    openapi: '3.1.0',
    info: { ...generated.info, contact: CONTACT, license: LICENSE },
    servers: [{ url: '/', description: 'The hub that serves this description.' }],
    tags: [...generated.tags, WEBHOOKS_TAG],
    paths: detailedPaths(folded.document),
    webhooks: describeWebhooks(schemas),
    components: {
      headers: rewriteSchemas(
        ROUTES.some(({ deprecation }) => deprecation !== null)
          ? { ...HEADERS, ...DEPRECATION_HEADERS }
          : HEADERS,
        numberFormats('int32'),
      ),
      responses: HTTP_FAILURE_RESPONSES,
      schemas,
      securitySchemes: {
        bearer: { ...(generated.components.securitySchemes['bearer'] as JsonObject), scheme: 'bearer' },
      },
    },
  }
}

let made: JsonObject | undefined

/** The description of the public API, as `GET /v1/openapi.json` returns it. Generated once. */
export const description = (): JsonObject => (made ??= generate())

let written: string | undefined

/** The text of `openapi.json`: indented, with a final line feed. Generated once. */
export const descriptionText = (): string => (written ??= `${JSON.stringify(description(), null, 2)}\n`)
