/** HTTP answers as data, and the headers that each of them has. */
import { type ApiError, errorHeaders, httpStatusOf, isTemporary, toErrorBody } from '@hub/contract'
import { HttpServerResponse } from 'effect/http'
import type { ResourcePage } from '../paging/page.ts'

/** An answer before it becomes an Effect response. */
export interface Answer {
  readonly status: number
  readonly body: string | Uint8Array
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
  /** A repeat may do more, so this answer is not stored under the idempotency key. */
  readonly repeatable?: true
  /** The error of an error answer, for the log. */
  readonly error?: ApiError
}

/** `retry_after` in seconds when a server of the hub does not answer. */
export const RETRY_AFTER = 2

const JSON_TYPE = 'application/json'

export const jsonAnswer = (
  status: number,
  body: unknown,
  headers?: Readonly<Record<string, string>>,
): Answer & { readonly body: string } => ({
  status,
  body: JSON.stringify(body),
  contentType: JSON_TYPE,
  ...(headers === undefined ? undefined : { headers }),
})

/** The JSON before and after the elements of a list. Source: LIST-1. */
const LIST_PREFIX = '{"object":"list","data":['
const listSuffix = ({ hasMore, lastId, startingAfter }: ListCursor): string =>
  `],"has_more":${hasMore},"next_cursor":${JSON.stringify(lastId ?? startingAfter)}}`

interface ListCursor {
  readonly hasMore: boolean
  readonly lastId: string | null
  readonly startingAfter: string | null
}

/** A list with elements that are JSON texts. */
export const listAnswer = (page: ListCursor & { readonly elements: ReadonlyArray<string> }): Answer => ({
  status: 200,
  contentType: JSON_TYPE,
  body: `${LIST_PREFIX}${page.elements.join(',')}${listSuffix(page)}`,
})

/** A list with elements that are JSON texts in UTF-8, already joined by commas. */
export const listOfTexts = (page: ListCursor & { readonly texts: Uint8Array }): Answer => ({
  status: 200,
  contentType: JSON_TYPE,
  body: Buffer.concat([Buffer.from(LIST_PREFIX), page.texts, Buffer.from(listSuffix(page))]),
})

/** A list with a page of resources. */
export const pageAnswer = <T extends { readonly id: string }>(
  found: ResourcePage<T>,
  startingAfter: string | null,
): Answer =>
  listAnswer({
    elements: found.data.map((resource) => JSON.stringify(resource)),
    hasMore: found.hasMore,
    lastId: found.data.at(-1)?.id ?? null,
    startingAfter,
  })

/** The error envelope. `status` replaces that of the catalogue, for a malformed HTTP request. */
export const errorAnswer = (
  error: ApiError,
  requestId: string,
  docBase: string,
  extra: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer & { readonly body: string } => ({
  ...jsonAnswer(extra.status ?? httpStatusOf(error), toErrorBody(error, requestId, docBase), {
    ...errorHeaders(error),
    ...extra.headers,
  }),
  ...(isTemporary(error) ? { repeatable: true as const } : undefined),
  error,
})

/**
 * Headers of every answer: browsers must not sniff, frame or cache it, nor send its URL to other
 * sites. The reference page sets its own policy.
 */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** All headers of an answer except those of its body. */
export const headersOf = (answer: Answer, requestId: string): Record<string, string> => {
  const headers: Record<string, string> = { ...SECURITY_HEADERS, 'request-id': requestId }
  if (answer.headers !== undefined) {
    for (const [name, value] of Object.entries(answer.headers)) headers[name.toLowerCase()] = value
  }
  return headers
}

/** `warnings`: one header line each, as Node writes a list. Effect's type has only single values. */
export const toResponse = (
  answer: Answer,
  requestId: string,
  warnings: ReadonlyArray<string> = [],
): HttpServerResponse.HttpServerResponse => {
  const options = {
    status: answer.status,
    contentType: answer.contentType,
    headers: headersOf(answer, requestId),
  }
  const response =
    typeof answer.body === 'string'
      ? HttpServerResponse.text(answer.body, options)
      : HttpServerResponse.uint8Array(answer.body, options)
  if (warnings.length > 0) Object.assign(response.headers, { 'hub-warning': [...warnings] })
  return response
}
