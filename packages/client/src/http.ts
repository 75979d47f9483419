/** One call of the API: its URL, its deadline, and its retries. */
import { readJson } from './answer.ts'
import { errorOfAnswer, HubConnectionError, HubError, HubOptionError } from './errors.ts'
import type { CallOptions, Method } from './operations.ts'
import { VERSION } from './version.ts'

export interface HubClientOptions {
  /** The URL of the hub without `/v1`, such as `https://hub.example.com`. */
  readonly baseUrl: string
  /** `hub_live_…` or `hub_test_…` */
  readonly apiKey: string
  /** Maximum number of retries after a connection failure, 409, 429 or 5xx. Default 2. */
  readonly maxRetries?: number
  /** Timeout of one attempt, in milliseconds. Default 30,000. */
  readonly timeoutMs?: number
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch
}

export interface RequestOptions extends CallOptions {
  readonly path?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  /** Instead of the option of the client. */
  readonly maxRetries?: number
}

export type Call = (method: Method, template: string, options?: RequestOptions) => Promise<unknown>

/** Waits for `ms` milliseconds; rejects when the signal aborts. */
export type Wait = (ms: number, signal: AbortSignal | undefined) => Promise<void>

export const waitFor: Wait = (ms, signal) =>
  new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })

/** Wait before a retry without `retry_after`: 0.5 s, 1 s, 2 s, …, at most `LONGEST_WAIT_MS`. */
const FIRST_WAIT_MS = 500
/** Up to this part is added at random, so that clients that failed together do not come back together. */
const JITTER = 0.5
/** The client does not wait longer than this within a call: the caller decides. */
export const LONGEST_WAIT_MS = 30_000

/**
 * The wait before the next attempt, in milliseconds. It is never shorter than `retryAfter`, in seconds, and longer
 * than `LONGEST_WAIT_MS` only if `retryAfter` is. `tries`: the failed attempts before this one.
 */
export const waitBefore = (tries: number, retryAfter: number | null): number => {
  const ms = retryAfter === null ? Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries) : retryAfter * 1000
  return ms > LONGEST_WAIT_MS ? ms : Math.min(LONGEST_WAIT_MS, ms * (1 + JITTER * Math.random()))
}

/** Checks the URL of the hub, and returns it without a trailing slash. */
const readBaseUrl = (text: string): string => {
  const refuse = (reason: string): never => {
    throw new HubOptionError('baseUrl', `baseUrl ${reason}. Example: https://hub.example.com`)
  }
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return refuse('must be the URL of the hub')
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return refuse('must begin with https://')
  if (url.username !== '' || url.password !== '') return refuse('must not contain a user or a password')
  if (url.search !== '' || url.hash !== '') return refuse('must not contain a query or a fragment')
  const path = url.pathname.replace(/\/+$/u, '')
  if (/(?:^|\/)v\d+$/u.test(path)) return refuse('must not end with /v1: the client adds it')
  return `${url.origin}${path}`
}

/** A line break in a header would make `fetch` fail with an error that quotes the key. */
const readApiKey = (key: string): string => {
  if (/^[\x21-\x7e]+$/u.test(key)) return key
  throw new HubOptionError('apiKey', 'apiKey must be an API key of the hub: hub_live_… or hub_test_…')
}

/** `fetch` would fail with it in every attempt. */
const readIdempotencyKey = (key: string): string => {
  if (/^[\t\x20-\x7e\x80-\xff]*$/u.test(key)) return key
  throw new HubOptionError('idempotencyKey', 'idempotencyKey must be a text that a header can contain.')
}

/** Returns a number of things. `NaN` would never be reached. */
export const checkCount = (param: string, count: number, least = 1): number => {
  if (Number.isSafeInteger(count) && count >= least) return count
  throw new HubOptionError(param, `${param} must be a whole number from ${least}.`)
}

/** A timer with a longer time would end at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

const checkTimeout = (ms: number): number => {
  if (ms > 0 && ms <= LONGEST_TIMEOUT_MS) return ms
  throw new HubOptionError(
    'timeoutMs',
    `timeoutMs must be a number of milliseconds above 0, at most ${LONGEST_TIMEOUT_MS}.`,
  )
}

const urlOf = (baseUrl: string, template: string, { path = {}, query = {} }: RequestOptions): string => {
  const filled = template.replaceAll(/\{([^}]+)\}/gu, (_, name: string) => {
    const value = path[name]
    if (typeof value === 'string' && value !== '') return encodeURIComponent(value)
    throw new HubOptionError(name, `${name} must be a text that is not empty.`)
  })
  // Without the slash, the path would continue the host of the URL, and the key would go to another host.
  if (!/^\/[\x21-\x7e]*$/u.test(filled)) {
    throw new HubOptionError('path', 'path must begin with / and be printable ASCII without spaces: /v1/…')
  }
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) search.append(name, String(one))
    }
  }
  const text = search.toString()
  return `${baseUrl}${filled}${text === '' ? '' : `?${text}`}`
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

const errorOf = async (response: Response): Promise<HubError> => {
  const body: unknown = await readJson(response).catch(() => null)
  const error = isObject(body) && isObject(body['error']) ? body['error'] : {}
  return errorOfAnswer(response.status, error, response.headers.get('request-id'))
}

/** Whether a repeat of the same request can succeed. A deletion may have happened. */
const mayRepeat = (method: Method, failure: HubError): boolean =>
  failure.status === 429 ||
  (method !== 'delete' && (failure.status === null || failure.status === 409 || failure.status >= 500))

/**
 * The wait before the next attempt, in milliseconds; `null`: another attempt would fail again, or the caller
 * must decide. `tries`: the failed attempts before this one.
 */
export const waitAfter = (
  method: Method,
  failure: unknown,
  tries: number,
  maxRetries: number,
): number | null => {
  if (!(failure instanceof HubError) || !mayRepeat(method, failure) || tries >= maxRetries) return null
  const waitMs = waitBefore(tries, failure.retryAfter)
  return waitMs > LONGEST_WAIT_MS ? null : waitMs
}

export const makeCall = (client: HubClientOptions, wait: Wait): Call => {
  const baseUrl = readBaseUrl(client.baseUrl)
  const apiKey = readApiKey(client.apiKey)
  const mostRetries = checkCount('maxRetries', client.maxRetries ?? 2, 0)
  const timeoutMs = checkTimeout(client.timeoutMs ?? 30_000)
  const { fetch: send = fetch } = client

  return async (method, template, options = {}) => {
    const url = urlOf(baseUrl, template, options)
    const headers: Record<string, string> = {
      authorization: `Bearer ${apiKey}`,
      accept: 'application/json',
      // A browser sends its own instead.
      'user-agent': `sms-delivery-hub-client/${VERSION}`,
    }
    // All attempts have the same key, so the hub does nothing twice.
    if (method === 'post' && options.idempotencyKey !== null) {
      headers['idempotency-key'] = readIdempotencyKey(options.idempotencyKey ?? crypto.randomUUID())
    }
    if (options.body !== undefined) headers['content-type'] = 'application/json'
    const maxRetries = checkCount('maxRetries', options.maxRetries ?? mostRetries, 0)
    for (let tries = 0; ; tries++) {
      const timeout = AbortSignal.timeout(timeoutMs)
      let failure: HubError
      try {
        const response = await send(url, {
          method: method.toUpperCase(),
          headers,
          redirect: 'error',
          signal: options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]),
          ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
        })
        if (response.ok) return await readJson(response)
        failure = await errorOf(response)
      } catch (error) {
        if (options.signal?.aborted === true) throw error
        failure =
          error instanceof HubError
            ? error
            : new HubConnectionError(timeout.aborted ? 'timeout' : 'connection_failed', error)
      }
      const waitMs = waitAfter(method, failure, tries, maxRetries)
      if (waitMs === null) throw failure
      await wait(waitMs, options.signal)
    }
  }
}
