/**
 * Access tokens for brokers, from a token endpoint by the client credentials grant (RFC 6749, 4.4). All connections of
 * the process share a token, because identity providers count and limit them.
 */
import { boundedFetch } from '@hub/http-client'
import * as Redacted from 'effect/Redacted'

export interface TokenClient {
  /** The token endpoint. */
  readonly url: string
  readonly id: string
  readonly secret: Redacted.Redacted<string>
  /** Separated by spaces. `null`: those of the client. */
  readonly scopes: string | null
  /** Further parameters of the request, such as `audience`. */
  readonly parameters: Readonly<Record<string, string>>
}

/** The endpoint gives no token now. A repeat may succeed. `code`: of Node or the status, without data. */
export class TokenUnavailable extends Error {
  override readonly name = 'TokenUnavailable'
  readonly code: string
  constructor(code: string) {
    super(`no token: ${code}`)
    this.code = code
  }
}

/** The endpoint refuses the client or the request. `code`: one of `REFUSALS`. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused'
  readonly code: string
  constructor(code: string) {
    super(`the token endpoint refuses: ${code}`)
    this.code = code
  }
}

/** The codes of the answer to a refused request. Sources: RFC 6749, 5.2; RFC 8707, 2. */
const REFUSALS = [
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
] as const

/** Nobody waits for the renewal of a token. Without a token, callers have their own, shorter deadlines. */
const REQUEST_WITHIN_MS = 5000

/** With many connections, an endpoint that fails would get a request for each attempt of each of them. */
const FAILED_FOR_MS = 1000

/**
 * A token with less time left is not used any more. A broker that ends sessions with their tokens then gives a
 * session of at least this time, of which kafkajs needs the last ten seconds to authenticate again.
 */
const LEAST_LEFT_MS = 20_000

/** The part of its time in which a token is used before it is renewed. As the Java client of Kafka does it. */
const RENEWED_AFTER = 0.8

/** `expires_in` is recommended, and not required (RFC 6749, 5.1). */
const UNKNOWN_LIFETIME_MS = 60_000

interface Token {
  readonly value: string
  readonly lifetimeMs: number
}

interface HeldToken {
  readonly value: string
  /** When a request begins to look for the next token, and when this one is not used any more. */
  readonly renewAt: number
  readonly usableUntil: number
}

/** Form encoding of a value. Source: RFC 6749, appendix B. */
const encoded = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1)

/** The header that authenticates the client. Source: RFC 6749, 2.3.1. */
export const basicAuthorization = (id: string, secret: string): string =>
  `Basic ${Buffer.from(`${encoded(id)}:${encoded(secret)}`).toString('base64')}`

/** The characters of a bearer token. Source: RFC 6750, 2.1. */
const BEARER = /^[A-Za-z0-9\-._~+/]+=*$/u

const field = (body: unknown, name: string): unknown =>
  typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined

/** Errors of `fetch` have the code in their cause. */
const codeOf = (error: unknown): string => {
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'ETIMEDOUT'
  const code = field(field(error, 'cause'), 'code')
  return typeof code === 'string' ? code : 'unknown'
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Asks the endpoint for a token. Fails with `TokenUnavailable` or `TokenRefused`, whose texts contain no secret. */
const requestToken = async (client: TokenClient, withinMs: number): Promise<Token> => {
  const { id, parameters, scopes, secret, url } = client
  let status: number
  let body: unknown
  try {
    const response = await boundedFetch(url, {
      method: 'POST',
      // The secret goes to the address of the settings, and to no other one.
      redirect: 'error',
      signal: AbortSignal.timeout(withinMs),
      headers: { accept: 'application/json', authorization: basicAuthorization(id, Redacted.value(secret)) },
      body: new URLSearchParams({
        ...parameters,
        grant_type: 'client_credentials',
        ...(scopes === null ? {} : { scope: scopes }),
      }),
    })
    status = response.status
    body = parsed(await response.text())
  } catch (error) {
    throw new TokenUnavailable(codeOf(error))
  }
  if (status !== 200) {
    const refusal = REFUSALS.find((code) => code === field(body, 'error'))
    throw refusal === undefined ? new TokenUnavailable(String(status)) : new TokenRefused(refusal)
  }
  const value = field(body, 'access_token')
  const type = field(body, 'token_type')
  const isBearer = typeof type === 'string' && type.toLowerCase() === 'bearer'
  if (typeof value !== 'string' || !BEARER.test(value) || !isBearer) throw new TokenUnavailable('no_token')
  const seconds = Number(field(body, 'expires_in') ?? Number.NaN)
  return { value, lifetimeMs: seconds >= 0 ? seconds * 1000 : UNKNOWN_LIFETIME_MS }
}

export interface TokenSource {
  /** A token that is valid now. `onFailedRenewal`: a token is in use that could not be renewed. */
  readonly token: (onFailedRenewal: (code: string) => void) => Promise<string>
}

interface TokenSourceOptions {
  /** A monotonic clock, ms. */
  readonly now?: () => number
  readonly requestWithinMs?: number
}

export const makeTokenSource = (client: TokenClient, options: TokenSourceOptions = {}): TokenSource => {
  const { now = () => performance.now(), requestWithinMs = REQUEST_WITHIN_MS } = options
  let held: HeldToken | null = null
  let renewal: Promise<string> | null = null
  let failed: { readonly error: unknown; readonly until: number } | null = null

  const request = async (): Promise<string> => {
    const askedAt = now()
    try {
      const { lifetimeMs, value } = await requestToken(client, requestWithinMs)
      const usableMs = Math.max(0, lifetimeMs - LEAST_LEFT_MS)
      held = { value, renewAt: askedAt + RENEWED_AFTER * usableMs, usableUntil: askedAt + usableMs }
      failed = null
      return value
    } catch (error) {
      failed = { error, until: now() + FAILED_FOR_MS }
      throw error
    }
  }
  /** One request at a time, for all who wait. */
  const renew = (): Promise<string> => {
    if (failed !== null && now() < failed.until) return Promise.reject(failed.error)
    renewal ??= request().finally(() => {
      renewal = null
    })
    return renewal
  }

  return {
    token: (onFailedRenewal) => {
      if (held === null || now() >= held.usableUntil) return renew()
      const isRenewalDue =
        now() >= held.renewAt && renewal === null && (failed === null || now() >= failed.until)
      if (isRenewalDue) {
        renew().catch((error: unknown) => onFailedRenewal(String(field(error, 'code'))))
      }
      return Promise.resolve(held.value)
    },
  }
}

/** The sources of this process, by what they ask for. A process has one, and a test has some. */
const sources = new Map<string, TokenSource>()

/** The source of a client. All connections of the process share it. */
export const tokenSourceOf = (client: TokenClient): TokenSource => {
  const { secret, ...open } = client
  const key = JSON.stringify([open, Redacted.value(secret)])
  let source = sources.get(key)
  if (source === undefined) sources.set(key, (source = makeTokenSource(client)))
  return source
}
