/**
 * The body of a request: what its headers declare, and its bytes within a limit.
 * Source: RFC 9110, 15.5.14 (413) and 15.5.16 (415); RFC 9112, 6 (when a request has a body).
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Effect } from 'effect'

export interface BodyRules {
  readonly maxBytes: number
  /** Whether the type and the encoding of the body can be read. */
  readonly isSupported: (headers: IncomingHttpHeaders) => boolean
}

/** What the headers declare about the body. */
export type DeclaredBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly code: 'payload_too_large' | 'unsupported_media_type' }
  /** `bytes`: of the `Content-Length`; `null` for a chunked body. */
  | { readonly kind: 'body'; readonly bytes: number | null }

/** Whether a body follows the headers. */
export const hasBody = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Checks the headers. Pure. Node has already refused contradictory lengths. */
export const declaredBody = (
  headers: IncomingHttpHeaders,
  { isSupported, maxBytes }: BodyRules,
): DeclaredBody => {
  if (!hasBody(headers)) return { kind: 'none' }
  const chunked = headers['transfer-encoding'] !== undefined
  const length = Number(headers['content-length'] ?? 0)
  if (length > maxBytes) return { kind: 'refused', code: 'payload_too_large' }
  if (!isSupported(headers)) return { kind: 'refused', code: 'unsupported_media_type' }
  return { kind: 'body', bytes: chunked ? null : length }
}

interface ReadOptions<E> extends Pick<BodyRules, 'maxBytes'> {
  /** `disconnected`: nobody reads the answer. */
  readonly failure: (code: 'payload_too_large' | 'disconnected') => E
  /** Called with the number of bytes before each part and with it. May refuse the part. */
  readonly take?: (before: number, received: number) => E | null
}

/**
 * Reads a body. Node ends the connection of a client that does not send it in time. After a refusal the rest
 * is not read here: the client gets the answer while it is still sending.
 */
export const readBody = <E>(
  incoming: IncomingMessage,
  { failure, maxBytes, take }: ReadOptions<E>,
): Effect.Effect<Uint8Array, E> =>
  Effect.callback((resume) => {
    const parts: Array<Uint8Array> = []
    let received = 0
    const onData = (part: Uint8Array): void => {
      const before = received
      received += part.length
      const error = received > maxBytes ? failure('payload_too_large') : (take?.(before, received) ?? null)
      if (error === null) parts.push(part)
      else end(Effect.fail(error))
    }
    const onEnd = (): void => end(Effect.succeed(parts.length === 1 ? parts[0]! : Buffer.concat(parts)))
    const onClose = (): void => end(Effect.fail(failure('disconnected')))
    const stop = (): void => {
      incoming.off('data', onData).off('end', onEnd).off('close', onClose)
    }
    const end = (result: Effect.Effect<Uint8Array, E>): void => {
      stop()
      resume(result)
    }
    if (incoming.destroyed) return onClose()
    incoming.on('error', () => {})
    incoming.on('data', onData).on('end', onEnd).on('close', onClose)
    return Effect.sync(stop)
  })
