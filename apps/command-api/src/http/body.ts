/**
 * The body of a request: the rules for its headers, which are checked before authentication, and its
 * reading within memory budgets, which comes after. Source: HTTP-11, HTTP-12, HTTP-25, LIM-5.
 */
import type { IncomingMessage } from 'node:http'
import { type ApiError, apiError, MAX_BODY_BYTES } from '@hub/contract'
import { type BodyRules, declaredBody, type DeclaredBody, readBody } from '@hub/http-server'
import { Effect } from 'effect'
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
const SMALL_BODY_BYTES = 16 * 1024

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

/** Of the requests of this API. */
export const BODY_RULES: BodyRules = {
  maxBytes: MAX_BODY_BYTES,
  isSupported: ({ 'content-encoding': encoding, 'content-type': type }) =>
    (encoding === undefined || encoding.trim().toLowerCase() === 'identity') &&
    (type === undefined || isJson(type)),
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

/** Nobody reads the answer to a client that has disconnected. */
const bodyError = (code: 'payload_too_large' | 'disconnected'): ApiError =>
  apiError(code === 'disconnected' ? 'invalid_parameter' : code)

/**
 * Runs `use` with the body, which counts against the budgets of its owner as it arrives, until `use` ends. So
 * a client that announces a large body and sends little of it occupies little.
 */
export const withBody = <A, E, R>(
  budget: BodyBudget,
  owner: BodyOwner,
  incoming: IncomingMessage,
  declared: DeclaredBody,
  use: (body: Uint8Array) => Effect.Effect<A, E, R>,
): Effect.Effect<A, E | ApiError, R> => {
  if (declared.kind === 'none') return use(EMPTY)
  if (declared.kind === 'refused') return Effect.fail(apiError(declared.code))
  return Effect.suspend(() => {
    let taken = 0
    /** Takes the bytes beyond those of a small body. */
    const take = (before: number, received: number): ApiError | null => {
      const more = received - Math.max(before, SMALL_BODY_BYTES)
      if (more <= 0) return null
      const error = budget.take(owner, more)
      if (error === null) taken += more
      return error
    }
    return readBody(incoming, {
      maxBytes: BODY_RULES.maxBytes,
      take,
      failure: bodyError,
    }).pipe(
      Effect.flatMap(use),
      Effect.ensuring(
        Effect.sync(() => {
          if (taken > 0) budget.release(owner, taken)
        }),
      ),
    )
  })
}

/** Reads the body of an operation without a key. It must be small, because it counts against no budget. */
export const readOpenBody = (incoming: IncomingMessage): Effect.Effect<string, ApiError> =>
  Effect.suspend(() => {
    const maxBytes = SMALL_BODY_BYTES
    const declared = declaredBody(incoming.headers, { ...BODY_RULES, maxBytes })
    if (declared.kind === 'none') return Effect.succeed('')
    if (declared.kind === 'refused') return Effect.fail(apiError(declared.code))
    return Effect.map(readBody(incoming, { maxBytes, failure: bodyError }), (bytes) =>
      Buffer.from(bytes).toString('utf8'),
    )
  })
