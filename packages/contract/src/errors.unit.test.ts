import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import {
  apiError,
  ERROR_CODES,
  ERRORS,
  errorHeaders,
  httpStatusOf,
  insufficientScope,
  toErrorBody,
} from './errors.ts'
import { Schema } from 'effect'
import { ErrorBody } from './schemas/common.ts'
import { REQUEST_ID } from './schemas/fields.ts'

const DOCS = 'https://hub.example/docs/errors'
const code = fc.constantFrom(...ERROR_CODES)

/** Source: ERR-5. Another status of a code is a breaking change. */
const STATUSES = {
  invalid_api_key: 401,
  insufficient_scope: 403,
  not_found: 404,
  method_not_allowed: 405,
  payload_too_large: 413,
  unsupported_media_type: 415,
  idempotency_conflict: 409,
  rate_limited: 429,
  hub_daily_limit_reached: 429,
  recipient_flood_limited: 422,
  spend_limit_reached: 422,
  batch_too_large: 422,
  invalid_parameter: 422,
  idempotency_key_reused: 422,
  webhook_url_invalid: 422,
  webhook_endpoint_limit_reached: 422,
  rotation_in_progress: 409,
  send_at_not_supported: 422,
  recipient_invalid: 422,
  recipient_opted_out: 422,
  recipient_range_blocked: 422,
  sender_not_registered: 422,
  deletion_not_allowed: 422,
  template_not_found: 422,
  template_not_approved: 422,
  template_declined: 422,
  template_class_mismatch: 422,
  template_variable_missing: 422,
  template_variable_unknown: 422,
  template_variable_invalid: 422,
  template_text_too_long: 422,
  template_invalid: 422,
  duplicate_rejected: 422,
  overloaded: 503,
  provider_unavailable: 503,
  internal_error: 503,
}

describe('the error catalogue', () => {
  // Rules: ERR-5
  it('contains exactly the codes of the contract with their statuses', () => {
    expect(Object.fromEntries(ERROR_CODES.map((c) => [c, ERRORS[c].status]))).toEqual(STATUSES)
  })

  it('has a default retry_after for each code that always has one', () => {
    for (const c of ERROR_CODES) {
      if (ERRORS[c].retryAfter === 'always') expect(apiError(c).retryAfter).toBeGreaterThanOrEqual(1)
      if (ERRORS[c].param === 'always') expect(apiError(c).param).toBeTypeOf('string')
    }
  })

  // Rules: ERR-9
  it('has codes that always have a retry_after', () => {
    expect(ERROR_CODES.filter((c) => ERRORS[c].retryAfter === 'always').toSorted()).toEqual([
      'hub_daily_limit_reached',
      'idempotency_conflict',
      'overloaded',
      'provider_unavailable',
      'rate_limited',
      'rotation_in_progress',
    ])
  })

  // Rules: LIM-21
  it('has a retry_after of at least a minute for the daily limit', () => {
    expect(apiError('hub_daily_limit_reached').retryAfter).toBe(60)
  })
})

describe('an error', () => {
  // Rules: ERR-1, ERR-3, ERR-4
  it('omits members that its code never has', () => {
    const error = apiError('recipient_invalid', { retryAfter: 3, window: 'hour' })
    expect(toErrorBody(error, REQUEST_ID, DOCS)).toEqual({
      error: {
        code: 'recipient_invalid',
        message: ERRORS.recipient_invalid.message,
        param: 'to',
        request_id: REQUEST_ID,
        doc_url: `${DOCS}#recipient_invalid`,
      },
    })
    expect(errorHeaders(error)).toEqual({})
  })

  // Rules: ERR-4
  it('rounds retry_after up to whole seconds in the body and the header', () => {
    const error = apiError('rate_limited', { retryAfter: 1.2 })
    expect(toErrorBody(error, REQUEST_ID, DOCS).error.retry_after).toBe(2)
    expect(errorHeaders(error)).toEqual({ 'Retry-After': '2' })
    expect(apiError('rate_limited', { retryAfter: 0 }).retryAfter).toBe(1)
  })

  // Rules: AUTH-18, ERR-7
  it('names the scope that the key does not have, as RFC 6750 says', () => {
    const error = insufficientScope('manage')
    expect(httpStatusOf(error)).toBe(403)
    expect(toErrorBody(error, 'req_1', DOCS).error).toEqual({
      code: 'insufficient_scope',
      message: expect.stringContaining('the scope "manage"'),
      request_id: 'req_1',
      doc_url: `${DOCS}#insufficient_scope`,
    })
    // RFC 6750, 3 and 3.1: auth-params of the scheme Bearer, comma-separated, with quoted values.
    expect(errorHeaders(error)).toEqual({
      'WWW-Authenticate': 'Bearer realm="hub", error="insufficient_scope", scope="manage"',
    })
  })

  // Rules: LIM-7, LIM-12
  it('contains the window of a flood refusal, with and without retry_after', () => {
    const error = apiError('recipient_flood_limited', { window: 'day' })
    expect(toErrorBody(error, REQUEST_ID, DOCS).error).toMatchObject({ window: 'day', param: 'to' })
    expect(error.retryAfter).toBeUndefined()
  })

  // Rules: ERR-5, ERR-6
  it('is 503 with a retry_after and 500 without one', () => {
    expect(httpStatusOf(apiError('internal_error', { retryAfter: 2 }))).toBe(503)
    expect(httpStatusOf(apiError('internal_error'))).toBe(500)
  })

  // Rules: ERR-8
  it('contains a name that the client chose only if it is short and printable', () => {
    const param = (of: string) => apiError('template_variable_unknown', { param: of }).param
    expect(param('variables.code')).toBe('variables.code')
    expect(param('variables.__proto__')).toBe('variables.__proto__')
    expect(param(`variables.${'x'.repeat(300)}`)).toBe('variables')
    expect(param('messages[3].variables.a\u0000b')).toBe('messages[3].variables')
    expect(param('variables.\ud800')).toBe('variables')
    expect(param('\u0007')).toBe('body')
  })

  it('matches its schema for any input', () => {
    const isErrorBody = Schema.is(ErrorBody)
    fc.assert(
      fc.property(
        code,
        fc.record(
          {
            param: fc.string({ unit: 'binary' }),
            retryAfter: fc.double({ min: 0, max: 86_400, noNaN: true }),
            window: fc.constantFrom('pause' as const, 'hour' as const, 'day' as const),
          },
          { requiredKeys: [] },
        ),
        (c, options) => {
          const body = toErrorBody(apiError(c, options), REQUEST_ID, DOCS)
          expect(isErrorBody(body)).toBe(true)
          expect(body.error.param?.isWellFormed() ?? true).toBe(true)
        },
      ),
    )
  })
})
