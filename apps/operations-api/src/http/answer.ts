/** HTTP answers as data, and the headers that each of them has. */
import { pagePolicy } from '@hub/contract'
import type { Stream } from 'effect'
import { HttpServerResponse } from 'effect/http'
import { type ApiFailure, errorBody } from './failures.ts'

/** An answer before it becomes an Effect response. */
export interface Answer {
  readonly status: number
  readonly body: string | Uint8Array
  readonly headers: Readonly<Record<string, string>>
  /** Each is one `Set-Cookie` header. */
  readonly cookies?: ReadonlyArray<string>
}

/** An answer whose body is made while it is sent. If the body fails, the connection is closed before its end. */
export interface StreamedAnswer {
  readonly body: Stream.Stream<Uint8Array, unknown>
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
}

export const isStreamed = (answer: Answer | StreamedAnswer): answer is StreamedAnswer =>
  'contentType' in answer

/** The policy of everything that is not a page. */
const NOTHING = "default-src 'none'; frame-ancestors 'none'"

/** Headers of every answer. Browsers must not sniff, frame or cache it, nor send its URL to other sites. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': NOTHING,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

const JSON_TYPE = 'application/json'

export const jsonAnswer = (
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Answer => ({
  status,
  body: JSON.stringify(body),
  headers: { 'content-type': JSON_TYPE, ...headers },
})

/** A page that the API renders itself. Its policy permits its own styles and nothing else. */
export const htmlAnswer = (status: number, html: string): Answer => ({
  status,
  body: html,
  headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': pagePolicy(html) },
})

/** `location` is an address that this API has made or checked. */
export const redirectAnswer = (location: string, cookies: ReadonlyArray<string>): Answer => ({
  status: 303,
  body: '',
  headers: { location },
  cookies,
})

/** `challenge`: the scheme of the credentials that the client has sent. */
const CHALLENGES: Readonly<Record<string, string>> = {
  not_signed_in: 'Bearer realm="hub operations"',
  session_expired: 'Bearer realm="hub operations"',
  token_invalid: 'Bearer realm="hub operations", error="invalid_token"',
}

export const failureAnswer = (failure: ApiFailure, requestId: string, docBase: string): Answer => {
  const { code, retryAfter, status } = failure
  const challenge = CHALLENGES[code]
  return jsonAnswer(status, errorBody(failure, requestId, docBase), {
    ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
    ...(challenge === undefined ? {} : { 'www-authenticate': challenge }),
  })
}

export const toStreamedResponse = (
  { body, contentType, headers }: StreamedAnswer,
  requestId: string,
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(body, {
    headers: { ...SECURITY_HEADERS, ...headers, 'request-id': requestId },
    contentType,
  })

/** Effect's type of headers has single values, and Node writes a list as one line each. */
export const toResponse = (answer: Answer, requestId: string): HttpServerResponse.HttpServerResponse => {
  const { 'content-type': contentType, ...own } = answer.headers
  const headers = { ...SECURITY_HEADERS, ...own, 'request-id': requestId }
  const options = {
    status: answer.status,
    headers,
    ...(contentType === undefined ? {} : { contentType }),
  }
  const response =
    typeof answer.body !== 'string'
      ? HttpServerResponse.uint8Array(answer.body, options)
      : answer.body === '' && contentType === undefined
        ? HttpServerResponse.empty(options)
        : HttpServerResponse.text(answer.body, options)
  if (answer.cookies !== undefined && answer.cookies.length > 0) {
    Object.assign(response.headers, { 'set-cookie': [...answer.cookies] })
  }
  return response
}
