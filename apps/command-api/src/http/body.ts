/**
 * The body of a request: the checks of its size and encoding, which come before authentication.
 * Source: contract, General (order of checks, hostile input).
 */
import type { IncomingHttpHeaders } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { type ApiError, apiError, MAX_BODY_BYTES } from '@hub/contract'
import { ByteSize, Effect } from 'effect'
import { HttpIncomingMessage, type HttpServerRequest } from 'effect/http'

/**
 * Bytes of all bodies in memory: 32 bodies of the maximum size. Above this, a new body is refused
 * (503 with `retry_after`). Above twice this, connections whose body still grows are closed.
 */
const BUDGET_BYTES = 32 * MAX_BODY_BYTES

/** `application/json` and types with the suffix `+json`, in UTF-8. */
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

/** What the headers declare about the body. */
type DeclaredBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly error: ApiError }
  | { readonly kind: 'body' }

const refused = (code: 'payload_too_large' | 'unsupported_media_type'): DeclaredBody => ({
  kind: 'refused',
  error: apiError(code),
})

/** Checks the headers. Pure. Node has already refused contradictory lengths. */
export const declaredBody = (headers: IncomingHttpHeaders): DeclaredBody => {
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
let bytesInMemory = 0

/** Runs `use` with the body of at most 4 MiB, which counts against the budget until `use` ends. */
export const withBody = <A, E, R>(
  request: HttpServerRequest.HttpServerRequest,
  use: (body: Uint8Array) => Effect.Effect<A, E, R>,
): Effect.Effect<A, E | ApiError, R> => {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request)
  const declared = declaredBody(incoming.headers)
  if (declared.kind === 'none') return use(EMPTY)
  if (declared.kind === 'refused') return Effect.fail(declared.error)
  if (bytesInMemory > BUDGET_BYTES) return Effect.fail(apiError('internal_error', { retryAfter: 1 }))
  return Effect.suspend(() => {
    let received = 0
    const count = (chunk: Uint8Array) => {
      received += chunk.length
      bytesInMemory += chunk.length
      if (bytesInMemory > 2 * BUDGET_BYTES) incoming.destroy()
    }
    // Added in the same turn as the listener of the reader, before the first chunk.
    incoming.on('data', count)
    return request.arrayBuffer.pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, LIMIT),
      Effect.mapError((error) =>
        error.reason._tag === 'RequestParseError' && error.reason.reason === 'BodyTooLarge'
          ? apiError('payload_too_large')
          : // The client disconnected, so nobody reads this answer.
            apiError('invalid_parameter'),
      ),
      Effect.flatMap((buffer) => use(new Uint8Array(buffer))),
      Effect.ensuring(
        Effect.sync(() => {
          incoming.off('data', count)
          bytesInMemory -= received
        }),
      ),
    )
  })
}
