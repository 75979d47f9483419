/**
 * The error catalogue: all codes that the API returns.
 *
 * Source: docs/contract/errors.md. {@link ApiError} takes its code from {@link ERRORS}, so the API cannot
 * return another code.
 *
 * Messages say what to do next. They are fixed sentences without client input, so errors may be
 * logged. Only `param` may contain client input (the name of a template variable), so it must not
 * be logged.
 */
import { type Scope, TEXT_MAX_PARTS, VARIABLE_MAX_LENGTH } from '@hub/domain'
import { Data } from 'effect'
import { MAX_BODY_BYTES, MAX_URL_LENGTH, MAX_WEBHOOK_ENDPOINTS } from './limits.ts'

/** Whether an error of a code has a member: always, if the caller provides one, or never. */
type Presence = 'always' | 'optional' | 'never'

interface CatalogueRow {
  /** HTTP status. `internal_error` is 500 without a `retry_after`: see {@link httpStatusOf}. */
  readonly status: number
  readonly message: string
  /** An error with a default always has the member. Without both fields it never has it. */
  readonly defaultParam?: string
  readonly param?: 'optional'
  /** Seconds. The same rule applies. */
  readonly defaultRetryAfter?: number
  readonly retryAfter?: 'optional'
  /** The effect of a retry, for the error page. */
  readonly retry: string
}

const FIX_REQUEST = 'Fails in the same way until the request is changed. Use a new Idempotency-Key then.'
const FIX_TEMPLATE =
  'Fails in the same way until the template or the request is changed. Use a new Idempotency-Key then.'
const NO_RETRY = 'Fails in the same way.'

const catalogue = {
  // Authentication and routing: refused before the body. A retry changes nothing.
  invalid_api_key: {
    status: 401,
    message: 'The API key is not valid here. Send a current key as "Authorization: Bearer <API_KEY>".',
    retry: 'Fails in the same way, and counts as a failed login.',
  },
  insufficient_scope: {
    status: 403,
    message:
      'The API key does not have the scope of this operation. Use a key with this scope, or ask the hub operator for one.',
    retry: 'Fails in the same way. It does not count as a failed login.',
  },
  not_found: {
    status: 404,
    message: 'There is nothing under this path or identifier for this key.',
    param: 'optional',
    retry: NO_RETRY,
  },
  method_not_allowed: {
    status: 405,
    message: 'This path does not take this method. The Allow header lists those that it takes.',
    retry: NO_RETRY,
  },
  payload_too_large: {
    status: 413,
    message: `The request body is over ${MAX_BODY_BYTES / 1024 / 1024} MiB. Split the request.`,
    retry: FIX_REQUEST,
  },
  unsupported_media_type: {
    status: 415,
    message: 'Send the body as application/json, without a content encoding.',
    retry: FIX_REQUEST,
  },

  // Overload and concurrency: a retry after the wait, with the same idempotency key, runs as new.
  rate_limited: {
    status: 429,
    message: 'There were too many requests. Repeat this one after retry_after seconds.',
    defaultRetryAfter: 1,
    retry: 'Runs as new after retry_after, with the same Idempotency-Key.',
  },
  hub_daily_limit_reached: {
    status: 429,
    message: 'The hub has sent all it may send today. Sending goes on after midnight UTC.',
    // The shortest wait (LIM-21). A stop by hub staff has its own text and end.
    defaultRetryAfter: 60,
    retry: 'Runs as new after retry_after, with the same Idempotency-Key.',
  },
  idempotency_conflict: {
    status: 409,
    message:
      'The first request with this Idempotency-Key is still running. Repeat this one after retry_after seconds.',
    defaultRetryAfter: 1,
    retry: 'Gets the answer of the first request, once it has one.',
  },

  // Invalid requests. The same key gets the stored answer; a correction needs a new key.
  invalid_parameter: {
    status: 422,
    message: 'The request is not in the form that the reference describes.',
    param: 'optional',
    retry: FIX_REQUEST,
  },
  idempotency_key_reused: {
    status: 422,
    message:
      'This Idempotency-Key belongs to another request: method, path or body differ. Use a new key for each request.',
    defaultParam: 'Idempotency-Key',
    retry: 'Fails in the same way. Use a new Idempotency-Key.',
  },
  batch_too_large: {
    status: 422,
    message: 'The batch has more messages than limits.batch_max of the account. Split it.',
    defaultParam: 'messages',
    retry: FIX_REQUEST,
  },
  send_at_not_supported: {
    status: 422,
    message: 'Scheduled sending does not exist. Leave send_at out and send at the moment you want.',
    defaultParam: 'send_at',
    retry: FIX_REQUEST,
  },
  recipient_invalid: {
    status: 422,
    message: 'The number must be in E.164 form: +79 and nine digits, nothing else.',
    defaultParam: 'to',
    retry: FIX_REQUEST,
  },
  duplicate_rejected: {
    status: 422,
    message: 'This name is taken. Choose another one, or use what exists under it.',
    defaultParam: 'name',
    retry: FIX_REQUEST,
  },

  // Templates and senders.
  template_not_found: {
    status: 422,
    message:
      'There is no template of this name in the mode of the key. Create it with a key of this mode first.',
    defaultParam: 'template',
    retry: FIX_TEMPLATE,
  },
  template_not_approved: {
    status: 422,
    message: 'The template waits for moderation. Send when it is approved.',
    defaultParam: 'template',
    retry: 'Succeeds once the template is approved. Use a new Idempotency-Key then.',
  },
  template_declined: {
    status: 422,
    message: 'The template was declined in moderation. Its reason is in the template; use another one.',
    defaultParam: 'template',
    retry: FIX_TEMPLATE,
  },
  template_class_mismatch: {
    status: 422,
    message: 'The template belongs to the other class. Send with the class of the template.',
    defaultParam: 'class',
    retry: FIX_TEMPLATE,
  },
  template_variable_missing: {
    status: 422,
    message: 'A variable of the template has no value. Send a value for each placeholder.',
    defaultParam: 'variables',
    retry: FIX_TEMPLATE,
  },
  template_variable_unknown: {
    status: 422,
    message: 'The template has no placeholder of this name. Leave the variable out.',
    defaultParam: 'variables',
    retry: FIX_TEMPLATE,
  },
  template_variable_invalid: {
    status: 422,
    message: `A variable is a string of at most ${VARIABLE_MAX_LENGTH} characters without control characters, or a number up to 2^53 that loses no digits as a double. Send any other number as a string.`,
    defaultParam: 'variables',
    retry: FIX_TEMPLATE,
  },
  template_text_too_long: {
    status: 422,
    message: `The rendered text is over ${TEXT_MAX_PARTS} parts. Shorten the template or its values.`,
    defaultParam: 'template',
    retry: FIX_TEMPLATE,
  },
  template_invalid: {
    status: 422,
    message:
      'A placeholder is written as {{name}}: a letter or underscore, then letters, digits or underscores, at most 64.',
    defaultParam: 'body',
    retry: FIX_TEMPLATE,
  },
  sender_not_registered: {
    status: 422,
    message: 'The sender is not registered. Register it, or wait until its registration is complete.',
    defaultParam: 'template',
    retry: 'Succeeds once the sender is registered. Use a new Idempotency-Key then.',
  },
  deletion_not_allowed: {
    status: 422,
    message: 'A sender can be deleted while it is pending or declined, a template while it or its sender is.',
    retry: NO_RETRY,
  },

  // Limits of the recipient and of the account.
  recipient_opted_out: {
    status: 422,
    message:
      'The recipient does not want service messages. Do not send any until the recipient asks for them again.',
    defaultParam: 'to',
    retry: NO_RETRY,
  },
  recipient_range_blocked: {
    status: 422,
    message:
      'Messages of this account to numbers of this range are blocked for a time. Ask the hub operator, and protect forms that request codes.',
    defaultParam: 'to',
    retry: 'Fails in the same way until the block ends or the hub operator lifts it.',
  },
  recipient_flood_limited: {
    status: 422,
    message: 'This recipient was sent enough for now. Send again when the window named here has passed.',
    defaultParam: 'to',
    // Absent while Redis is unavailable: the client must use its own interval then.
    retryAfter: 'optional',
    retry:
      'Succeeds after the window, with a new Idempotency-Key. Without a window, the hub could not check the windows: repeat after a minute, with a new Idempotency-Key too.',
  },
  spend_limit_reached: {
    status: 422,
    message: 'The spend limit of the account is reached. Ask the hub operator to raise it.',
    retry: 'Fails in the same way until the limit is raised or its period ends.',
  },

  // Webhook subscriptions.
  webhook_url_invalid: {
    status: 422,
    message: `The address must be a public https address without credentials, of at most ${MAX_URL_LENGTH} characters.`,
    defaultParam: 'url',
    retry: FIX_REQUEST,
  },
  webhook_endpoint_limit_reached: {
    status: 422,
    message: `The account has ${MAX_WEBHOOK_ENDPOINTS} subscriptions, the most it may have. Delete one first.`,
    retry: 'Succeeds once a subscription is deleted. Use a new Idempotency-Key then.',
  },
  rotation_in_progress: {
    status: 409,
    message:
      'Three secrets sign already, and a fourth one is not possible. Repeat this request after retry_after seconds, or send "expire_previous": true.',
    // The longest wait that the default setting allows; each error has its own.
    defaultRetryAfter: 86_400,
    retry: 'Runs as new after retry_after, with the same Idempotency-Key.',
  },

  // Failures of the hub: nothing is stored, so a retry with the same key runs as new.
  overloaded: {
    status: 503,
    message:
      'The hub has more work than it can do in time, and did nothing for this request. Repeat it after retry_after seconds with the same Idempotency-Key.',
    // Each error has its own, from 1 to 10 seconds, so that the clients do not repeat all at once.
    defaultRetryAfter: 1,
    retry: 'Runs as new after retry_after, with the same Idempotency-Key and client_ref.',
  },
  provider_unavailable: {
    status: 503,
    message:
      'The code could not be queued and was not accepted. Repeat the request with the same Idempotency-Key.',
    // About the time that Kafka needs to elect a new leader.
    defaultRetryAfter: 5,
    retry: 'Accepts the message anew, with the same Idempotency-Key and client_ref.',
  },
  internal_error: {
    status: 503,
    message: 'Something failed on our side. Repeat the request with the same Idempotency-Key.',
    retryAfter: 'optional',
    retry: 'Runs as new, with the same Idempotency-Key.',
  },
} as const satisfies Record<string, CatalogueRow>

export type ErrorCode = keyof typeof catalogue

export interface ErrorEntry extends Omit<CatalogueRow, 'param' | 'retryAfter'> {
  readonly param: Presence
  readonly retryAfter: Presence
}

const entryOf = (row: CatalogueRow): ErrorEntry => ({
  ...row,
  param: row.defaultParam === undefined ? (row.param ?? 'never') : 'always',
  retryAfter: row.defaultRetryAfter === undefined ? (row.retryAfter ?? 'never') : 'always',
})

export const ERRORS = Object.fromEntries(
  Object.entries(catalogue).map(([code, row]) => [code, entryOf(row)]),
) as Readonly<Record<ErrorCode, ErrorEntry>>

/** All codes, in the order of the catalogue. */
export const ERROR_CODES = Object.keys(catalogue) as ReadonlyArray<ErrorCode> as readonly [
  ErrorCode,
  ...Array<ErrorCode>,
]

/** An error names the one exceeded first. Source: LIM-7. */
export const FLOOD_WINDOWS = ['pause', 'hour', 'day'] as const
type FloodWindow = (typeof FLOOD_WINDOWS)[number]

/** An error for a client. Create it with {@link apiError}, which applies the catalogue. */
export class ApiError extends Data.TaggedError('ApiError')<{
  readonly code: ErrorCode
  readonly message: string
  /** Path: `to`, `messages[3].to`, `variables.code`. It must not be logged. */
  readonly param?: string
  /** Whole seconds, at least 1. */
  readonly retryAfter?: number
  readonly window?: FloodWindow
  /** Why the hub failed, for its log. Never sent to the client. */
  readonly reason?: string
  /** The hub does not know whether it accepted the request, or this element of it. */
  readonly outcome?: 'unknown'
  /** The scope that the key does not have. */
  readonly scope?: Scope
}> {}

interface ApiErrorOptions {
  readonly param?: string
  /** Seconds; rounded up to a whole number, at least 1. */
  readonly retryAfter?: number
  /** Only for `recipient_flood_limited`. */
  readonly window?: FloodWindow
  /** Only for `internal_error` and `provider_unavailable`. */
  readonly outcome?: 'unknown'
  /** A more specific fixed sentence than the catalogue's. It must not contain client input. */
  readonly message?: string
  /** Why the hub failed, for its log: a fixed text with codes, without client input. */
  readonly reason?: string
}

/**
 * A `param` may end with a name that the client chose (a variable). If that is long or not
 * printable, only the part that the contract defines remains: `variables`, `messages[3].variables`.
 */
const MAX_PARAM_LENGTH = 256
const sanitizeParam = (param: string): string =>
  param.length <= MAX_PARAM_LENGTH && !/[\p{Cc}\p{Cs}]/u.test(param)
    ? param
    : (/^(?:messages\[\d+\]\.)?[A-Za-z_-]{1,64}/u.exec(param)?.[0] ?? 'body')

/** The path of a field. `path`: of its object in the body, such as `messages[3]`; '' for the body itself. */
export const paramAt = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

/** Creates an error with the members that the code always has, without those it never has. */
export const apiError = (code: ErrorCode, options: ApiErrorOptions = {}): ApiError => {
  const entry = ERRORS[code]
  const param = entry.param === 'never' ? undefined : (options.param ?? entry.defaultParam)
  const seconds = entry.retryAfter === 'never' ? undefined : (options.retryAfter ?? entry.defaultRetryAfter)
  return new ApiError({
    code,
    message: options.message ?? entry.message,
    ...(param === undefined ? undefined : { param: sanitizeParam(param) }),
    ...(seconds === undefined ? undefined : { retryAfter: Math.max(1, Math.ceil(seconds)) }),
    ...(options.window === undefined || code !== 'recipient_flood_limited'
      ? undefined
      : { window: options.window }),
    ...(options.reason === undefined ? undefined : { reason: options.reason }),
    ...(options.outcome === undefined ? undefined : { outcome: options.outcome }),
  })
}

/** The refusal of a key without the scope of an operation. Source: AUTH-18. */
export const insufficientScope = (scope: Scope): ApiError => {
  const message = `The API key does not have the scope "${scope}", which this operation needs. Use a key with this scope, or ask the hub operator for one.`
  return new ApiError({ code: 'insufficient_scope', message, scope })
}

/**
 * The HTTP status of an error. `internal_error` is 503 with a `retry_after` (PostgreSQL or Kafka is
 * unavailable), and 500 without one (a defect). Source: ERR-5, ERR-6.
 */
export const httpStatusOf = (error: ApiError): number =>
  error.code === 'internal_error' && error.retryAfter === undefined ? 500 : ERRORS[error.code].status

/**
 * Whether this answer must not be stored under the idempotency key of its request, so that a repeat runs
 * as new. Every 422 is stored, also a flood refusal because the hub could not check the windows: its
 * client waits, and uses a new key.
 * Source: IDEM-6; docs/decisions/repeats.md#stored-flood-refusals.
 */
export const isTemporary = (error: ApiError): boolean => {
  const status = httpStatusOf(error)
  return status >= 500 || status === 429 || status === 409
}

/** The `error` member of an error envelope and of a rejected batch element. */
export interface ErrorObject {
  readonly code: string
  readonly message: string
  readonly param?: string
  readonly request_id: string
  readonly retry_after?: number
  readonly window?: FloodWindow
  readonly outcome?: 'unknown'
  readonly doc_url: string
}

/** The error envelope. `docBase`: the URL of the error page. */
export const toErrorBody = (
  error: ApiError,
  requestId: string,
  docBase: string,
): { readonly error: ErrorObject } => ({
  error: {
    code: error.code,
    message: error.message,
    ...(error.param === undefined ? undefined : { param: error.param }),
    request_id: requestId,
    ...(error.retryAfter === undefined ? undefined : { retry_after: error.retryAfter }),
    ...(error.window === undefined ? undefined : { window: error.window }),
    ...(error.outcome === undefined ? undefined : { outcome: error.outcome }),
    doc_url: `${docBase}#${error.code}`,
  },
})

/** The authentication scheme of the API, for a 401. Source: RFC 9110, 11.6.1; RFC 6750, 3. */
const CHALLENGE = 'Bearer realm="hub"'

/** `null`: the answer has none. A refusal for a scope names it. Source: RFC 6750, 3 and 3.1. */
const challengeOf = ({ code, scope }: ApiError): string | null =>
  scope !== undefined
    ? `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`
    : ERRORS[code].status === 401
      ? CHALLENGE
      : null

/** `Retry-After` repeats `retry_after` of the body; `WWW-Authenticate` belongs to every 401 and to a missing scope. */
export const errorHeaders = (error: ApiError): Readonly<Record<string, string>> => {
  const challenge = challengeOf(error)
  return {
    ...(error.retryAfter === undefined ? undefined : { 'Retry-After': String(error.retryAfter) }),
    ...(challenge === null ? undefined : { 'WWW-Authenticate': challenge }),
  }
}
