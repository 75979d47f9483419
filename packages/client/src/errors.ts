/** The errors of the client. Decide by the class or by `code`, never by the message. */
import type { components } from './contract.ts'

type ErrorDetail = components['schemas']['ErrorDetail']

interface Details {
  readonly status: number | null
  readonly code: string
  readonly message: string
  readonly param?: string | null
  readonly retryAfter?: number | null
  readonly requestId?: string | null
  readonly docUrl?: string | null
  readonly isOutcomeUnknown?: boolean
  readonly cause?: unknown
}

/** The base class of all errors that the client throws. */
export class HubError extends Error {
  override readonly name: string = 'HubError'
  /** The HTTP status; `null` without an answer. */
  readonly status: number | null
  /** A code of the error catalogue, or of the client. New codes may be added. */
  readonly code: string
  /** The parameter that caused the error, such as `to` or `messages[3].to`; else `null`. */
  readonly param: string | null
  /** Seconds to wait before a retry; `null` without a known time. */
  readonly retryAfter: number | null
  /** Identifies the request in a support case. */
  readonly requestId: string | null
  readonly docUrl: string | null
  /** True if the message may still be sent. Repeat with the same `client_ref` to learn the outcome. */
  readonly isOutcomeUnknown: boolean

  constructor(details: Details) {
    super(details.message, details.cause === undefined ? {} : { cause: details.cause })
    this.status = details.status
    this.code = details.code
    this.param = details.param ?? null
    this.retryAfter = details.retryAfter ?? null
    this.requestId = details.requestId ?? null
    this.docUrl = details.docUrl ?? null
    this.isOutcomeUnknown = details.isOutcomeUnknown ?? false
  }
}

/** An option of the client is invalid. `param` is its name. A mistake in the program. */
export class HubOptionError extends HubError {
  override readonly name = 'HubOptionError'

  constructor(param: string, message: string) {
    super({ status: null, code: 'invalid_option', message, param })
  }
}

/** No answer: `connection_failed` or `timeout`. A POST may have taken effect. */
export class HubConnectionError extends HubError {
  override readonly name = 'HubConnectionError'

  constructor(code: 'connection_failed' | 'timeout', cause: unknown) {
    const reason = code === 'timeout' ? 'The hub did not answer in time.' : 'The hub cannot be reached.'
    super({ status: null, code, message: reason, isOutcomeUnknown: true, cause })
  }
}

/** 401: the API key is wrong, expired, or not allowed from this address. A retry fails again. */
export class HubAuthenticationError extends HubError {
  override readonly name = 'HubAuthenticationError'
}

/** 404: there is no such object, or no such path. */
export class HubNotFoundError extends HubError {
  override readonly name = 'HubNotFoundError'
}

/** 409: another request with this key is in progress, or the object is in another state. */
export class HubConflictError extends HubError {
  override readonly name = 'HubConflictError'
}

/** 422 and other 4xx: correct the request. A retry of the same request fails again. */
export class HubInvalidRequestError extends HubError {
  override readonly name = 'HubInvalidRequestError'
}

/** 429: a rate or a limit of the hub is reached. Retry after `retryAfter` seconds. */
export class HubRateLimitError extends HubError {
  override readonly name = 'HubRateLimitError'
}

/** 5xx: retry with the same idempotency key, after `retryAfter` seconds if it is known. */
export class HubUnavailableError extends HubError {
  override readonly name = 'HubUnavailableError'
}

const classOf = (status: number): typeof HubError => {
  if (status >= 500) return HubUnavailableError
  switch (status) {
    case 401:
      return HubAuthenticationError
    case 404:
      return HubNotFoundError
    case 409:
      return HubConflictError
    case 429:
      return HubRateLimitError
    default:
      return status >= 400 ? HubInvalidRequestError : HubError
  }
}

/** The error of an answer. `detail` is `error` of its body, as far as there is one. */
export const errorOfAnswer = (
  status: number,
  detail: Partial<ErrorDetail>,
  requestId: string | null,
): HubError =>
  new (classOf(status))({
    status,
    code: detail.code ?? 'unknown',
    message: detail.message ?? `The hub answered ${status}.`,
    param: detail.param ?? null,
    retryAfter: detail.retry_after ?? null,
    requestId: detail.request_id ?? requestId,
    docUrl: detail.doc_url ?? null,
    isOutcomeUnknown: detail.outcome === 'unknown',
  })
