/**
 * Builds the operations of the API definition and groups them by resource. The errors and the
 * response headers of an operation follow from its error codes.
 */
import type { Scope } from '@hub/domain'
import { Context, Schema } from 'effect'
import {
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSchema,
  HttpApiSecurity,
  OpenApi,
} from 'effect/http-api'
import { type ErrorCode, ERRORS, insufficientScope } from '../errors.ts'
import { MAX_IDEMPOTENCY_KEY_LENGTH } from '../limits.ts'
import { ErrorBody } from '../schemas/common.ts'
import {
  type Deprecation,
  deprecationHeaders,
  describeDeprecation,
  OperationDeprecation,
} from './deprecation.ts'
import { HTTP_FAILURE_STATUSES, httpFailureOf } from './http-failures.ts'

const failure = (status: number) => ErrorBody.pipe(HttpApiSchema.status(status))

/** `Authorization: Bearer <API_KEY>`, for an account and mode. Source: AUTH-1, GEN-10. */
export class ApiKey extends HttpApiMiddleware.Service<ApiKey>()('@hub/contract/ApiKey', {
  requiredForClient: true,
  security: {
    bearer: HttpApiSecurity.bearer.pipe(
      HttpApiSecurity.annotateMerge(
        OpenApi.annotations({
          description:
            'An API key: `hub_live_…`, or `hub_test_…` for the sandbox. A key has all scopes or some of them: `send` for ' +
            'POST of messages, batches and estimates, `read` for every GET, `manage` for every other change. A request ' +
            'without the scope of its operation is refused with 403 `insufficient_scope`.',
        }),
      ),
    ),
  },
  error: failure(401),
}) {}

/** The scope that an operation needs; `null`: it needs no key. Source: AUTH-17. */
export const OperationScope = Context.Reference<Scope | null>('@hub/contract/OperationScope', {
  defaultValue: () => null,
})

/** Errors of every operation with an API key. */
const COMMON_CODES: ReadonlyArray<ErrorCode> = [
  'invalid_api_key',
  'insufficient_scope',
  'rate_limited',
  'internal_error',
  // A paging parameter of other APIs, such as `page`.
  'invalid_parameter',
  // Of the body, which also a GET may have.
  'unsupported_media_type',
  'overloaded',
]
/** Further errors of every POST. */
const POST_CODES: ReadonlyArray<ErrorCode> = ['idempotency_conflict', 'idempotency_key_reused']

interface Texts {
  readonly summary: string
  readonly description: string
  /** Short description of the success response. */
  readonly answer: string
  /** Possible error codes, in addition to those of every operation. */
  readonly codes?: ReadonlyArray<ErrorCode>
  readonly deprecation?: Deprecation
}

/** Of `internal_error` without a `retry_after`, which every operation can answer, with or without a key. */
const DEFECT = 500

const statusesOf = (codes: ReadonlyArray<ErrorCode>): ReadonlyArray<number> => {
  const statuses = new Set([...codes.map((code) => ERRORS[code].status), DEFECT, ...HTTP_FAILURE_STATUSES])
  return [...statuses].toSorted((a, b) => a - b)
}

/** The description of an error status: all codes with this status. */
const describeFailure = (status: number, codes: ReadonlyArray<ErrorCode>, scope: Scope | null): string => {
  if (status === ERRORS.insufficient_scope.status && scope !== null) {
    return `\`insufficient_scope\`: ${insufficientScope(scope).message}`
  }
  const here =
    status === DEFECT ? (['internal_error'] as const) : codes.filter((code) => ERRORS[code].status === status)
  return here.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join('\n\n')
}

const ref = (name: string) => ({ $ref: `#/components/headers/${name}` })

/** Refused before the rate limit (LIM-3). */
const UNCOUNTED = new Set([401, 415])
/** Never stored under an idempotency key (IDEM-6), so never replayed. */
const UNSTORED = new Set([401, 403, 409, 415, 429, DEFECT, 503])

/** Response headers of a status. `hasKey`: the operation has an API key and a rate limit. */
const headersOf = (
  codes: ReadonlyArray<ErrorCode>,
  status: number,
  hasKey: boolean,
  deprecation: Deprecation | null,
): Record<string, unknown> => ({
  'Request-Id': ref('Request-Id'),
  ...(deprecation === null
    ? undefined
    : Object.fromEntries(Object.keys(deprecationHeaders(deprecation)).map((name) => [name, ref(name)]))),
  ...(codes.some((code) => ERRORS[code].retryAfter !== 'never' && ERRORS[code].status === status)
    ? { 'Retry-After': ref('Retry-After') }
    : undefined),
  ...(hasKey && !UNCOUNTED.has(status)
    ? {
        'X-RateLimit-Limit': ref('X-RateLimit-Limit'),
        'X-RateLimit-Remaining': ref('X-RateLimit-Remaining'),
        'X-RateLimit-Reset': ref('X-RateLimit-Reset'),
        'RateLimit-Policy': ref('RateLimit-Policy'),
        RateLimit: ref('RateLimit'),
        'Hub-Warning': ref('Hub-Warning'),
      }
    : undefined),
  ...(status === 401 || status === 403 ? { 'WWW-Authenticate': ref('WWW-Authenticate') } : undefined),
  ...(codes.includes('idempotency_conflict') && !UNSTORED.has(status)
    ? { 'Idempotent-Replayed': ref('Idempotent-Replayed') }
    : undefined),
})

const idempotencyHeaders = {
  'idempotency-key': Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_IDEMPOTENCY_KEY_LENGTH)).annotate({
      description:
        'Any string of your own for this request. A repeat with the same key within 24 hours gets the same answer, with ' +
        '`Idempotent-Replayed: true`. After 409, 429 and 5xx, repeat with the same key; after 422, with a new one. It must not contain personal data.',
    }),
  ),
}

export const idParam = (of: string) => ({
  id: Schema.String.annotate({ description: `Identifier of ${of}.` }),
})

/** The query parameters of a list: `limit` and `starting_after`. */
export const pageQuery = (limits: { readonly max: number }) => ({
  // `describe.ts` adds the description with the bounds.
  limit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: limits.max }))),
  starting_after: Schema.optionalKey(
    Schema.String.annotate({ description: 'Go on after this id: the last one you have, or `next_cursor`.' }),
  ),
})

export const RENDER_REFUSALS: ReadonlyArray<ErrorCode> = [
  'template_variable_missing',
  'template_variable_unknown',
  'template_variable_invalid',
  'template_text_too_long',
]

/** A response as Effect's generator describes it. */
interface Response {
  readonly content?: object
}

/** `scopeOf`: the scope of an operation, from its definition. */
const operation =
  <
    const Method extends 'GET' | 'POST' | 'PATCH' | 'DELETE',
    Scoped extends object,
    Headers extends Schema.Struct.Fields = never,
  >(
    method: Method,
    everyCode: ReadonlyArray<ErrorCode>,
    scopeOf: (is: Scoped) => Scope | null,
    headers?: Headers,
  ) =>
  <
    const Name extends string,
    const Path extends `/${string}`,
    const Success extends Schema.Top,
    Params extends Schema.Struct.Fields = never,
    Query extends Schema.Struct.Fields = never,
    Payload extends HttpApiEndpoint.PayloadConstraintCodecs<Method> = never,
  >(
    name: Name,
    path: Path,
    is: Texts &
      Scoped & {
        readonly success: Success
        readonly params?: Params
        readonly query?: Query
        readonly payload?: Payload
        /** The JSON schema of a body that clients may leave out. */
        readonly optionalBody?: object
        /** The success response in other media types than JSON, by media type. */
        readonly otherMedia?: Readonly<Record<string, { readonly schema: object; readonly example: string }>>
        /** What the answer is to a client that sends the `ETag` which it has: 304, without a body. */
        readonly notModified?: string
      },
  ) => {
    const {
      answer,
      deprecation = null,
      description,
      notModified,
      optionalBody,
      otherMedia,
      params,
      payload,
      query,
      success,
      summary,
    } = is
    const codes = [...everyCode, ...(is.codes ?? [])]
    const scope = scopeOf(is)
    // `ApiKey` adds 401.
    const error = statusesOf(codes)
      .filter((status) => status !== 401)
      .map(failure)
    const hasKey = codes.includes('invalid_api_key')
    const endpoint = HttpApiEndpoint.make(method)(name, path, {
      headers,
      params,
      query,
      payload,
      success,
      error,
    })
    return endpoint
      .annotate(OperationScope, scope)
      .annotate(OperationDeprecation, deprecation)
      .annotateMerge(
        OpenApi.annotations({
          summary,
          description,
          transform: (generated) => {
            const responses: Record<string, unknown> = {}
            for (const [key, response] of Object.entries(
              generated['responses'] as Record<string, Response>,
            )) {
              const status = Number(key)
              responses[key] = httpFailureOf(status) ?? {
                ...response,
                ...(status < 400 && otherMedia !== undefined
                  ? { content: { ...response.content, ...otherMedia } }
                  : undefined),
                description: status < 400 ? answer : describeFailure(status, codes, scope),
                headers: headersOf(codes, status, hasKey, deprecation),
              }
            }
            if (notModified !== undefined) {
              responses['304'] = {
                description: notModified,
                headers: headersOf(codes, 304, hasKey, deprecation),
              }
            }
            return {
              ...generated,
              ...(deprecation === null ? undefined : describeDeprecation(deprecation)),
              ...(optionalBody === undefined
                ? undefined
                : {
                    requestBody: {
                      content: { 'application/json': { schema: optionalBody } },
                      required: false,
                    },
                  }),
              responses,
            }
          },
        }),
      )
  }

export const get = operation('GET', COMMON_CODES, () => 'read')
/** A POST names its scope: it may send, or make another change. */
export const post = operation(
  'POST',
  [...COMMON_CODES, ...POST_CODES],
  ({ scope }: { readonly scope: Exclude<Scope, 'read'> }) => scope,
  idempotencyHeaders,
)
export const patch = operation('PATCH', COMMON_CODES, () => 'manage')
export const remove = operation('DELETE', COMMON_CODES, () => 'manage')
/** A GET without an API key and a rate limit. */
export const getPublic = operation('GET', [], () => null)

/** The operations of a resource, which require an API key. */
export const resource = <
  const Name extends string,
  const Operations extends readonly [HttpApiEndpoint.Constraint, ...Array<HttpApiEndpoint.Constraint>],
>(
  name: Name,
  title: string,
  description: string,
  ...operations: Operations
) =>
  HttpApiGroup.make(name)
    .add(...operations)
    .middleware(ApiKey)
    .annotateMerge(OpenApi.annotations({ title, description }))
