/**
 * The body of a request: the checks of its headers, which come before authentication, and its
 * reading within memory budgets, which comes after. Source: HTTP-11, HTTP-12, HTTP-25, LIM-5.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { type ApiError, apiError, MAX_BODY_BYTES } from '@hub/contract'
import { Effect } from 'effect'
import type { HttpServerRequest } from 'effect/http'
import { refuseOverloaded } from '../accept/admission/overloaded.ts'

/**
 * Bytes of bodies in memory. One key may hold 8 bodies of the largest size, and one client address
 * 16, because several clients can share an address. All requests together may hold 32.
 */
const BUDGETS = { key: 8 * MAX_BODY_BYTES, address: 16 * MAX_BODY_BYTES, all: 32 * MAX_BODY_BYTES }

/**
 * Bodies up to this size are outside of the budgets, so that large bodies never refuse a single
 * send. The limit of connections bounds them: 10,000 × 16 KiB.
 */
export const SMALL_BODY_BYTES = 16 * 1024

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
export type DeclaredBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly error: ApiError }
  /** `bytes`: of the `Content-Length`; `null` for a chunked body. */
  | { readonly kind: 'body'; readonly bytes: number | null }

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
  return { kind: 'body', bytes: chunked ? null : length }
}

/** Who pays for a body: its key, and the address of its client. */
export interface BodyOwner {
  readonly key: string
  readonly address: string
}

const KEY_FULL = 'This key sends too many large bodies at once. Repeat this one after retry_after seconds.'
const ADDRESS_FULL =
  'This address sends too many large bodies at once. Repeat this one after retry_after seconds.'

/** Counts the bytes of bodies in memory, by key and by address. */
export const makeBodyBudget = (limits: typeof BUDGETS = BUDGETS) => {
  const byKey = new Map<string, number>()
  const byAddress = new Map<string, number>()
  let all = 0
  const add = (counts: Map<string, number>, name: string, bytes: number): void => {
    const sum = (counts.get(name) ?? 0) + bytes
    if (sum <= 0) counts.delete(name)
    else counts.set(name, sum)
  }
  const count = ({ address, key }: BodyOwner, bytes: number): void => {
    add(byKey, key, bytes)
    add(byAddress, address, bytes)
    all += bytes
  }
  return {
    /** Takes bytes from all three budgets, or from none and returns the error. */
    take: (owner: BodyOwner, bytes: number): ApiError | null => {
      const message =
        (byKey.get(owner.key) ?? 0) + bytes > limits.key
          ? KEY_FULL
          : (byAddress.get(owner.address) ?? 0) + bytes > limits.address
            ? ADDRESS_FULL
            : null
      if (message !== null) return apiError('rate_limited', { message })
      if (all + bytes > limits.all) return refuseOverloaded('other', 'memory')
      count(owner, bytes)
      return null
    },
    release: (owner: BodyOwner, bytes: number): void => count(owner, -bytes),
  }
}
export type BodyBudget = ReturnType<typeof makeBodyBudget>

const EMPTY = new Uint8Array(0)

/**
 * Reads a body. `take` counts the bytes beyond those of a small body, and may refuse more of them. After a
 * refusal the rest is not read here: the client gets the answer while it is still sending.
 */
const readBytes = (
  incoming: IncomingMessage,
  take: (bytes: number) => ApiError | null,
): Effect.Effect<Uint8Array, ApiError> =>
  Effect.callback((resume) => {
    const chunks: Array<Uint8Array> = []
    let received = 0
    const onData = (chunk: Uint8Array): void => {
      const before = Math.max(received, SMALL_BODY_BYTES)
      received += chunk.length
      const error =
        received > MAX_BODY_BYTES
          ? apiError('payload_too_large')
          : received > before
            ? take(received - before)
            : null
      if (error === null) chunks.push(chunk)
      else end(Effect.fail(error))
    }
    const onEnd = (): void => end(Effect.succeed(Buffer.concat(chunks)))
    // The client disconnected, so nobody reads this answer.
    const onClose = (): void => end(Effect.fail(apiError('invalid_parameter')))
    const stop = (): void => {
      incoming.off('data', onData).off('end', onEnd).off('close', onClose)
    }
    const end = (result: Effect.Effect<Uint8Array, ApiError>): void => {
      stop()
      resume(result)
    }
    if (incoming.destroyed) return onClose()
    incoming.on('error', () => {})
    incoming.on('data', onData).on('end', onEnd).on('close', onClose)
    return Effect.sync(stop)
  })

/** Reads a small body. `onRead` is not called if the client disconnects before its end. */
export const readSmallBody = (incoming: IncomingMessage, onRead: (body: Uint8Array) => void): void => {
  const chunks: Array<Uint8Array> = []
  // The client disconnected.
  incoming.once('error', () => {})
  incoming.on('data', (chunk: Uint8Array) => chunks.push(chunk))
  incoming.once('end', () => {
    onRead(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
  })
}

/**
 * Runs `use` with the body of at most 4 MiB, which counts against the budgets of its owner as it arrives,
 * until `use` ends. So a client that announces a large body and sends little of it occupies little.
 */
export const withBody = <A, E, R>(
  budget: BodyBudget,
  owner: BodyOwner,
  request: HttpServerRequest.HttpServerRequest,
  use: (body: Uint8Array) => Effect.Effect<A, E, R>,
): Effect.Effect<A, E | ApiError, R> => {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
  const declared = declaredBody(incoming.headers)
  if (declared.kind === 'none') return use(EMPTY)
  if (declared.kind === 'refused') return Effect.fail(declared.error)
  return Effect.suspend(() => {
    let taken = 0
    const take = (more: number): ApiError | null => {
      const error = budget.take(owner, more)
      if (error === null) taken += more
      return error
    }
    return readBytes(incoming, take).pipe(
      Effect.flatMap(use),
      Effect.ensuring(
        Effect.sync(() => {
          if (taken > 0) budget.release(owner, taken)
        }),
      ),
    )
  })
}
