/** What is sent back: answers as data, and the headers that every one of them has. */
import { type ApiError, errorHeaders, httpStatusOf, toErrorBody } from '@hub/contract'
import { HttpServerResponse } from 'effect/http'
import type { ResourcePage } from '../paging/page.ts'

/** An answer before it is a response. */
export interface Answer {
  readonly status: number
  readonly body: string | Uint8Array
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
  /** A repeat of the request may do more: this answer is not kept under its idempotency key. */
  readonly repeatable?: true
}

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

/** What is before the elements of a list and behind them. Source: contract, General (list envelope). */
const LIST_BEGINS = '{"object":"list","data":['
const listEnds = ({ hasMore, lastId, startingAfter }: ListPlace): string =>
  `],"has_more":${hasMore},"next_cursor":${JSON.stringify(lastId ?? startingAfter)}}`

interface ListPlace {
  readonly hasMore: boolean
  readonly lastId: string | null
  readonly startingAfter: string | null
}

/** A list whose elements are JSON texts already. */
export const listAnswer = (page: ListPlace & { readonly elements: ReadonlyArray<string> }): Answer => ({
  status: 200,
  contentType: JSON_TYPE,
  body: `${LIST_BEGINS}${page.elements.join(',')}${listEnds(page)}`,
})

/** A list whose elements are bytes already: JSON texts in UTF-8, with commas between them. */
export const listOfTexts = (page: ListPlace & { readonly texts: Uint8Array }): Answer => ({
  status: 200,
  contentType: JSON_TYPE,
  body: Buffer.concat([Buffer.from(LIST_BEGINS), page.texts, Buffer.from(listEnds(page))]),
})

/** A page of resources as a list. */
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

/** The error envelope. `status` overrides the catalogue's where HTTP itself has a better word (a garbled request). */
export const errorAnswer = (
  error: ApiError,
  requestId: string,
  docBase: string,
  extra: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer & { readonly body: string } =>
  jsonAnswer(extra.status ?? httpStatusOf(error), toErrorBody(error, requestId, docBase), {
    ...errorHeaders(error),
    ...extra.headers,
  })

/**
 * On every answer: nothing here is to be guessed at, framed, cached or told to other sites. The policy names nothing, because an
 * answer of the API is data; the reference page brings its own.
 */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** All headers of an answer but those of its body. */
export const headersOf = (answer: Answer, requestId: string): Record<string, string> => {
  const headers: Record<string, string> = { ...SECURITY_HEADERS, 'request-id': requestId }
  if (answer.headers !== undefined) {
    for (const [name, value] of Object.entries(answer.headers)) headers[name.toLowerCase()] = value
  }
  return headers
}

export const toResponse = (answer: Answer, requestId: string): HttpServerResponse.HttpServerResponse => {
  const options = {
    status: answer.status,
    contentType: answer.contentType,
    headers: headersOf(answer, requestId),
  }
  return typeof answer.body === 'string'
    ? HttpServerResponse.text(answer.body, options)
    : HttpServerResponse.uint8Array(answer.body, options)
}
