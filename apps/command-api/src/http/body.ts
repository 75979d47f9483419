/**
 * The body of a request: its size and its encoding, before anybody looks at who sends it. Source: contract, General (order of checks,
 * hostile input).
 */
import type { IncomingHttpHeaders } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { type ApiError, apiError, MAX_BODY_BYTES } from '@hub/contract'
import { ByteSize, Effect } from 'effect'
import { HttpIncomingMessage, type HttpServerRequest } from 'effect/http'

/**
 * Bytes of all bodies that are being read or worked on: thirty-two of the largest. Beyond it no further body is begun
 * (503 with `retry_after`); at twice that, those that still grow are cut off.
 */
const BUDGET_BYTES = 32 * MAX_BODY_BYTES

/** `application/json` and relatives, in UTF-8. */
const JSON_TYPE = /^application\/(?:[a-z0-9.+-]+\+)?json$/
const UTF8 = /^"?(?:utf-?8|us-ascii)"?$/

const isJson = (contentType: string): boolean => {
  const [type = '', ...parameters] = contentType.toLowerCase().split(';')
  if (!JSON_TYPE.test(type.trim())) return false
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=')
    return name.trim() !== 'charset' || UTF8.test(value.trim())
  })
}

/** What the headers say of a body. */
export type Announced =
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly error: ApiError }
  | { readonly kind: 'body' }

const refused = (code: 'payload_too_large' | 'unsupported_media_type'): Announced => ({
  kind: 'refused',
  error: apiError(code),
})

/** Reads the headers. Pure. Node has refused impossible ones (two lengths, a length with chunks) before. */
export const announcedBody = (headers: IncomingHttpHeaders): Announced => {
  const chunked = headers['transfer-encoding'] !== undefined
  const length = Number(headers['content-length'] ?? 0)
  if (!chunked && length === 0) return { kind: 'none' }
  if (length > MAX_BODY_BYTES) return refused('payload_too_large')
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity') {
    return refused('unsupported_media_type')
  }
  const type = headers['content-type']
  if (type !== undefined && !isJson(type)) return refused('unsupported_media_type')
  return { kind: 'body' }
}

const EMPTY = new Uint8Array(0)
const LIMIT = ByteSize.bytes(MAX_BODY_BYTES)
let inUse = 0

/**
 * Runs `use` with the body, of which at most 4 MiB are read whatever was announced; the rest stays in the socket. What was read
 * counts against the budget until `use` has ended.
 */
export const withBody = <A, E, R>(
  request: HttpServerRequest.HttpServerRequest,
  use: (body: Uint8Array) => Effect.Effect<A, E, R>,
): Effect.Effect<A, E | ApiError, R> => {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request)
  const announced = announcedBody(incoming.headers)
  if (announced.kind === 'none') return use(EMPTY)
  if (announced.kind === 'refused') return Effect.fail(announced.error)
  if (inUse > BUDGET_BYTES) return Effect.fail(apiError('internal_error', { retryAfter: 1 }))
  return Effect.suspend(() => {
    let received = 0
    const count = (chunk: Uint8Array) => {
      received += chunk.length
      inUse += chunk.length
      if (inUse > 2 * BUDGET_BYTES) incoming.destroy()
    }
    // Attached in the same turn as the reader's own listener, before anything flows.
    incoming.on('data', count)
    return request.arrayBuffer.pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, LIMIT),
      Effect.mapError((error) =>
        error.reason._tag === 'RequestParseError' && error.reason.reason === 'BodyTooLarge'
          ? apiError('payload_too_large')
          : // The client went away in the middle: nobody will read this answer.
            apiError('invalid_parameter'),
      ),
      Effect.flatMap((buffer) => use(new Uint8Array(buffer))),
      Effect.ensuring(
        Effect.sync(() => {
          incoming.off('data', count)
          inUse -= received
        }),
      ),
    )
  })
}
