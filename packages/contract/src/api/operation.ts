/** Helpers of the API definition: authentication, texts, headers and failures of an operation. */
import { Schema } from 'effect'
import { HttpApiMiddleware, HttpApiSchema, HttpApiSecurity, OpenApi } from 'effect/http-api'
import { type ErrorCode, ERRORS } from '../errors.ts'
import { MAX_IDEMPOTENCY_KEY_LENGTH } from '../limits.ts'
import { ErrorBody } from '../schemas/common.ts'

/** The error body with a status. */
const failure = (status: number) => ErrorBody.pipe(HttpApiSchema.status(status))

/**
 * `Authorization: Bearer <API_KEY>`. Account and mode follow from the key. Specification,
 * Authentication.
 */
export class ApiKey extends HttpApiMiddleware.Service<ApiKey>()('@hub/contract/ApiKey', {
  requiredForClient: true,
  security: {
    bearer: HttpApiSecurity.bearer.pipe(
      HttpApiSecurity.annotateMerge(
        OpenApi.annotations({
          description: 'An API key: `hub_live_…`, or `hub_test_…` for the sandbox.',
        }),
      ),
    ),
  },
  error: failure(401),
}) {}

/** Errors of every operation with an API key. */
export const ANYWHERE = [
  'invalid_api_key',
  'rate_limited',
  'internal_error',
] as const satisfies ReadonlyArray<ErrorCode>
/** Further errors of every POST. */
export const ANY_POST = [
  'idempotency_conflict',
  'idempotency_key_reused',
  'invalid_parameter',
  'payload_too_large',
  'unsupported_media_type',
] as const satisfies ReadonlyArray<ErrorCode>

interface Operation {
  readonly summary: string
  readonly description: string
  /** Short description of the success response. */
  readonly answer: string
  /** True for an operation without an API key and rate limit. */
  readonly keyless?: boolean
  /** Possible error codes. */
  readonly codes: ReadonlyArray<ErrorCode>
}

const statusesOf = (codes: ReadonlyArray<ErrorCode>): ReadonlyArray<number> => {
  const statuses = new Set(codes.map((code) => ERRORS[code].status))
  // `internal_error` without a `retry_after` has the status 500.
  if (codes.includes('internal_error')) statuses.add(500)
  return [...statuses].toSorted((a, b) => a - b)
}

/** The description of an error status: all codes with this status. */
const describeFailure = (status: number, codes: ReadonlyArray<ErrorCode>): string => {
  const here = codes.filter(
    (code) => ERRORS[code].status === status || (status === 500 && code === 'internal_error'),
  )
  return here.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join('\n\n')
}

const ref = (name: string) => ({ $ref: `#/components/headers/${name}` })

/**
 * Refused before the rate limit (contract decisions, "order of checks"), so without rate headers.
 */
const UNCOUNTED = new Set([401, 413, 415])
/** Never stored under an idempotency key (contract decisions, "idempotency"), so never replayed. */
const UNSTORED = new Set([401, 409, 413, 415, 429, 500, 503])

/** Response headers of a status. */
const headersOf = (is: Operation, status: number): Record<string, unknown> => ({
  'Request-Id': ref('Request-Id'),
  ...(is.codes.some((code) => ERRORS[code].retryAfter !== 'never' && ERRORS[code].status === status)
    ? { 'Retry-After': ref('Retry-After') }
    : undefined),
  ...(is.keyless !== true && !UNCOUNTED.has(status)
    ? {
        'X-RateLimit-Limit': ref('X-RateLimit-Limit'),
        'X-RateLimit-Remaining': ref('X-RateLimit-Remaining'),
        'X-RateLimit-Reset': ref('X-RateLimit-Reset'),
      }
    : undefined),
  ...(is.codes.includes('idempotency_conflict') && !UNSTORED.has(status)
    ? { 'Idempotent-Replayed': ref('Idempotent-Replayed') }
    : undefined),
})

/**
 * The texts, response headers and error descriptions of an operation. Errors and their headers
 * follow from the codes, so that only the error catalogue defines statuses.
 */
export const operation = (is: Operation) =>
  OpenApi.annotations({
    summary: is.summary,
    description: is.description,
    transform: (generated) => {
      const responses: Record<string, unknown> = {}
      for (const [status, response] of Object.entries(generated['responses'] as Record<string, object>)) {
        responses[status] = {
          ...response,
          description: Number(status) < 400 ? is.answer : describeFailure(Number(status), is.codes),
          headers: headersOf(is, Number(status)),
        }
      }
      return { ...generated, responses }
    },
  })

/** The errors of an operation as schemas, one for each status; 401 comes with {@link ApiKey}. */
export const failures = (codes: ReadonlyArray<ErrorCode>) =>
  statusesOf(codes)
    .filter((status) => status !== 401)
    .map(failure)

export const idempotencyHeaders = {
  'idempotency-key': Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_IDEMPOTENCY_KEY_LENGTH)).annotate({
      description:
        'Any string of your own for this request. A repeat with the same key within 24 hours gets the same answer, with ' +
        '`Idempotent-Replayed: true`. After 409, 429 and 5xx, repeat with the same key; after 422, with a new one.',
    }),
  ),
}

export const idParam = (of: string) => ({
  id: Schema.String.annotate({ description: `Identifier of ${of}.` }),
})

export const limitParam = (limits: { readonly max: number }) =>
  Schema.optionalKey(
    // `describe.ts` adds the description with the bounds.
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: limits.max })),
  )

export const startingAfterParam = Schema.optionalKey(
  Schema.String.annotate({ description: 'Go on after this id: the last one you have, or `next_cursor`.' }),
)

/** Errors of rendering. */
export const RENDER_REFUSALS = [
  'template_variable_missing',
  'template_variable_unknown',
  'template_variable_invalid',
  'template_text_too_long',
] as const satisfies ReadonlyArray<ErrorCode>

export const READ_CODES = [...ANYWHERE, 'not_found'] as const
export const LIST_CODES = [...ANYWHERE, 'invalid_parameter', 'not_found'] as const
