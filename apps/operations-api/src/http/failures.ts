/**
 * The errors of the operations API: a status, and the error envelope of the clients' API. The API's own
 * codes are in {@link ERRORS}. A use case adds the codes with which it refuses an operation; their status
 * follows from their form ({@link statusOfRefusal}).
 */
import {
  describeFailure,
  Forbidden,
  INPUT_INVALID,
  LookupLimitReached,
  OperationRefused,
  OperationUnavailable,
} from '@hub/operations'
import { Data } from 'effect'

interface ErrorEntry {
  readonly status: number
  readonly message: string
  /** Seconds. */
  readonly retryAfter?: number
}

export const ERRORS = {
  not_signed_in: { status: 401, message: 'Sign in first. The details name the address of the sign-in.' },
  session_expired: { status: 401, message: 'The session is over. Sign in again.' },
  token_invalid: {
    status: 401,
    message: 'The bearer token is not a valid token of the identity provider for this API.',
  },
  forbidden: { status: 403, message: 'No role of yours permits this. The details name the roles that do.' },
  csrf_token_invalid: {
    status: 403,
    message:
      'A change needs the header X-CSRF-Token with the csrf_token of GET /v1/me, from a page of this console.',
  },
  not_found: { status: 404, message: 'There is nothing under this path.' },
  method_not_allowed: {
    status: 405,
    message: 'This path does not take this method. The Allow header lists those that it takes.',
  },
  payload_too_large: { status: 413, message: 'The request body is over 64 KiB.' },
  unsupported_media_type: { status: 415, message: 'Send the body as application/json.' },
  invalid_parameter: {
    status: 422,
    message: 'The request is not in the form that the description requires.',
  },
  lookup_limit_reached: {
    status: 429,
    message:
      'You have looked up as many persons within an hour as this hub permits. Repeat the request after retry_after seconds.',
  },
  overloaded: {
    status: 503,
    message:
      'The operations API has more requests in progress than it can do. Repeat this one after retry_after seconds.',
    retryAfter: 1,
  },
  unavailable: {
    status: 503,
    message: 'PostgreSQL, Redis or Kafka does not answer. Repeat the request after retry_after seconds.',
    retryAfter: 5,
  },
  timeout: {
    status: 503,
    message:
      'The operation took too long. If it changes something, see the audit trail for its outcome before you repeat it.',
    retryAfter: 5,
  },
  internal_error: {
    status: 500,
    message: 'Something failed on our side. Tell the request_id to the developers.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>

export type OwnErrorCode = keyof typeof ERRORS

/** The answer to a failed request. */
export class ApiFailure extends Data.TaggedError('ApiFailure')<{
  readonly status: number
  readonly code: string
  readonly message: string
  /** The wrong parameter. */
  readonly param?: string
  /** Seconds. */
  readonly retryAfter?: number
  /** Facts for programs. */
  readonly details?: Readonly<Record<string, unknown>>
}> {}

export const apiFailure = (
  code: OwnErrorCode,
  more: Partial<Pick<ApiFailure, 'message' | 'param' | 'details' | 'retryAfter'>> = {},
): ApiFailure => {
  const { message, retryAfter, status }: ErrorEntry = ERRORS[code]
  return new ApiFailure({
    status,
    code,
    message,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...more,
  })
}

export const invalidParameter = (param: string, message: string): ApiFailure =>
  apiFailure('invalid_parameter', { param, message })

/**
 * The status of a refusal: 404 if something does not exist, 422 if one input is wrong, else 409: the
 * state of the hub does not permit the operation.
 */
export const statusOfRefusal = ({ code, param }: Pick<OperationRefused, 'code' | 'param'>): number =>
  code.endsWith('_not_found') ? 404 : param === undefined && code !== INPUT_INVALID ? 409 : 422

const optional = <Name extends string, Value>(name: Name, value: Value | undefined) =>
  (value === undefined ? {} : { [name]: value }) as { readonly [_ in Name]?: Value }

/** The answer to a failure of a use case; `null`: it is a defect. */
export const failureOf = (error: unknown): ApiFailure | null => {
  if (error instanceof ApiFailure) return error
  if (error instanceof OperationRefused) {
    const { code, details, message, param } = error
    const status = statusOfRefusal(error)
    return new ApiFailure({
      status,
      code,
      message,
      ...optional('param', param),
      ...optional('details', details),
    })
  }
  if (error instanceof Forbidden) {
    const { permission, roles } = error
    return apiFailure('forbidden', { details: { permission, roles } })
  }
  if (error instanceof LookupLimitReached) {
    return apiFailure('lookup_limit_reached', {
      retryAfter: error.retryAfterSeconds,
      details: { limit: error.limit },
    })
  }
  if (error instanceof OperationUnavailable) {
    const { code, message } = error
    return new ApiFailure({ status: 503, code, message, retryAfter: ERRORS.unavailable.retryAfter })
  }
  return describeFailure(error)?.retryable === true ? apiFailure('unavailable') : null
}

/** The error envelope. `docBase`: the address of the page of errors. */
export const errorBody = (
  { code, details, message, param, retryAfter }: ApiFailure,
  requestId: string,
  docBase: string,
) => ({
  error: {
    code,
    message,
    ...optional('param', param),
    request_id: requestId,
    ...optional('retry_after', retryAfter),
    ...optional('details', details),
    doc_url: Object.hasOwn(ERRORS, code) ? `${docBase}#${code}` : docBase,
  },
})
