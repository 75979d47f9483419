/**
 * Generates the API description of the operations API (OpenAPI 3.1) from the endpoints. The same
 * endpoints always give the same bytes.
 */
import { cleanDescription, LICENSE } from '@hub/contract'
import { Schema } from 'effect'
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from 'effect/http-api'
import { type Endpoint, type EndpointGroup, rolesSentence } from '../endpoints/endpoint.ts'
import { CsvText } from '../endpoints/list.ts'
import { endpointGroups } from '../endpoints/index.ts'
import { ERRORS, type OwnErrorCode, statusOfRefusal } from '../http/failures.ts'
import { fieldsOf, mayBeAbsent, pathParameters, sentField } from '../http/input.ts'

/** The version of the operations API. It changes with its description only by additions. */
const VERSION = '1.0.0'

const ErrorBody = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String.annotate({
      description: 'What went wrong, for programs. Treat an unknown code by its HTTP status.',
    }),
    message: Schema.String.annotate({ description: 'What went wrong and what to do, for people.' }),
    param: Schema.optionalKey(Schema.String.annotate({ description: 'The wrong parameter, as a path.' })),
    request_id: Schema.String.annotate({
      description: 'The same as in the `Request-Id` header, and in the log.',
    }),
    retry_after: Schema.optionalKey(
      Schema.Int.annotate({ description: 'Whole seconds to wait before a repeat.' }),
    ),
    details: Schema.optionalKey(
      Schema.Record(Schema.String, Schema.Json).annotate({
        description: 'Facts for programs, such as who has decided before and when.',
      }),
    ),
    doc_url: Schema.String.annotate({ description: 'Where this code is described.' }),
  }),
}).annotate({
  identifier: 'Error',
  title: 'Error',
  description: 'The body of every answer with a status of 400 or above.',
})

const SIGNED_IN: ReadonlyArray<OwnErrorCode> = ['not_signed_in', 'session_expired', 'token_invalid']
const SERVER: ReadonlyArray<OwnErrorCode> = ['overloaded', 'unavailable', 'timeout', 'internal_error']
const BODY: ReadonlyArray<OwnErrorCode> = [
  'csrf_token_invalid',
  'payload_too_large',
  'unsupported_media_type',
]

interface DescribedCode {
  readonly code: string
  readonly status: number
  readonly message: string
}

const described = (code: OwnErrorCode): DescribedCode => ({ code, ...ERRORS[code] })

/** All codes of an endpoint. */
const codesOf = ({ codes, method, roles, refusals }: Endpoint): ReadonlyArray<DescribedCode> => [
  ...[
    ...SIGNED_IN,
    ...(roles === null ? [] : (['forbidden'] as const)),
    ...(method === 'GET' ? [] : BODY),
    'invalid_parameter' as const,
    ...codes,
    ...SERVER,
  ].map(described),
  ...Object.entries(refusals).map(([code, refusal]) => ({
    code,
    status: statusOfRefusal({ code, ...(refusal.param === undefined ? {} : { param: refusal.param }) }),
    message: refusal.message,
  })),
]

const failure = (status: number) => ErrorBody.pipe(HttpApiSchema.status(status))

const optionalField = (
  name: string,
  field: Schema.Codec<unknown, unknown>,
  defaults: Readonly<Record<string, unknown>>,
) => (mayBeAbsent(name, field, defaults) ? Schema.optionalKey(sentField(field)) : field)

/** The definition of an endpoint, as Effect's generator of API descriptions reads it. */
const definitionOf = (is: Endpoint) => {
  const fields = Object.entries(fieldsOf(is.input))
  const inPath = new Set(pathParameters(is.path))
  const params = Object.fromEntries(fields.filter(([name]) => inPath.has(name)))
  const others = Object.fromEntries(
    fields
      .filter(([name]) => !inPath.has(name))
      .map(([name, field]) => [name, optionalField(name, field, is.defaults)]),
  )
  const codes = codesOf(is)
  const statuses = [...new Set(codes.map(({ status }) => status))].toSorted((a, b) => a - b)
  const has = (some: Readonly<Record<string, unknown>>) => Object.keys(some).length > 0
  return HttpApiEndpoint.make(is.method)(is.operation.split('.').at(-1) ?? is.operation, is.path, {
    ...(has(params) ? { params } : {}),
    ...(is.method === 'GET' && has(others) ? { query: others } : {}),
    ...(is.method !== 'GET' && has(others) ? { payload: Schema.Struct(others) } : {}),
    success: is.output,
    error: statuses.map(failure),
    // The schemas are those of JSON already. The query has other types only on the wire.
    disableCodecs: true,
  } as never).annotateMerge(
    OpenApi.annotations({
      identifier: is.operation,
      summary: is.summary,
      description: `${is.description} ${rolesSentence(is.roles)}`,
      transform: (generated) => ({
        ...generated,
        security: [{ session: [] }, { bearer: [] }],
        responses: Object.fromEntries(
          Object.entries(generated['responses'] as Record<string, { readonly content?: object }>).map(
            ([status, response]) => {
              const here = codes.filter((code) => String(code.status) === status)
              return [
                status,
                here.length > 0
                  ? {
                      ...response,
                      description: here.map(({ code, message }) => `\`${code}\`: ${message}`).join('\n\n'),
                    }
                  : {
                      ...response,
                      description: 'The result.',
                      ...(is.media === null
                        ? {}
                        : {
                            content: {
                              ...(is.output === CsvText ? {} : response.content),
                              [is.media[0]]: { schema: { type: 'string', description: is.media[1] } },
                            },
                          }),
                    },
              ]
            },
          ),
        ),
      }),
    }),
  )
}

const groupOf = ({ description, endpoints, name, title }: EndpointGroup) =>
  HttpApiGroup.make(name)
    .add(...(endpoints.map(definitionOf) as unknown as [HttpApiEndpoint.Constraint]))
    .annotateMerge(OpenApi.annotations({ title, description }))

const SECURITY_SCHEMES = {
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-hub_operations',
    description:
      'The session of a person. It begins at `/login`. Local hubs without TLS name it `hub_operations`. A request that changes something also needs the header `X-CSRF-Token` with `csrf_token` of `GET /v1/me`.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An access token (JWT) of the identity provider, for programs.',
  },
}

const generate = () => {
  const api = HttpApi.make('sms-delivery-hub-operations')
    .add(...(endpointGroups.map(groupOf) as unknown as [HttpApiGroup.Constraint]))
    .annotateMerge(
      OpenApi.annotations({
        title: 'SMS Delivery Hub: operations API',
        version: VERSION,
        description: [
          'The operations of hub staff, for the console and for programs. It is no part of the API of clients.',
          'Bodies are JSON in UTF-8 and at most 64 KiB. A parameter that is left out means "any" or "none". Lists have pages: send `next_cursor` as `cursor` for the next one.',
          'Every operation that changes something or reads data of a person is in the audit trail, with the person, the role and the reason.',
        ].join('\n\n'),
      }),
    )
  // Through JSON, because the type of the generator's result does not fit the steps below.
  const generated = JSON.parse(JSON.stringify(OpenApi.fromApi(api))) as {
    readonly info: object
    readonly tags: object
    readonly paths: Parameters<typeof cleanDescription>[0]
    readonly components: { readonly schemas: Parameters<typeof cleanDescription>[1] }
  }
  const { document, schemas } = cleanDescription(generated.paths, generated.components.schemas)
  return {
    openapi: '3.1.0',
    info: { ...generated.info, license: LICENSE },
    servers: [{ url: '/', description: 'The operations API that serves this description.' }],
    tags: generated.tags,
    paths: document,
    components: { schemas, securitySchemes: SECURITY_SCHEMES },
  }
}

let written: string | undefined

/** The text of `openapi.json`: indented, with a final line feed. Generated once. */
export const descriptionText = (): string => (written ??= `${JSON.stringify(generate(), null, 2)}\n`)
