/** A typed client of the hub's API. The types come from the API description. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { components, paths } from './contract.ts'

type Method = 'get' | 'post' | 'patch' | 'delete'

/** The paths with an operation of this method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: [NonNullable<paths[P][M]>] extends [never] ? never : P
}[keyof paths]

type OperationAt<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>

/** The body of the success response of an operation. */
type Success<Op> = Op extends { responses: infer Responses }
  ? {
      [Status in keyof Responses]: Status extends 200 | 201 | 202
        ? Responses[Status] extends { content: { 'application/json': infer Body } }
          ? Body
          : never
        : never
    }[keyof Responses]
  : never

type PathParameters<Op> = Op extends { parameters: { path: infer Parameters } }
  ? { readonly path: Parameters }
  : unknown
type QueryParameters<Op> = Op extends { parameters: { query: infer Parameters } }
  ? { readonly query: Parameters }
  : Op extends { parameters: { query?: infer Parameters } }
    ? { readonly query?: NonNullable<Parameters> }
    : unknown
type RequestBody<Op> = Op extends { requestBody: { content: { 'application/json': infer Body } } }
  ? { readonly body: Body }
  : Op extends { requestBody?: infer Optional }
    ? OptionalBody<NonNullable<Optional>>
    : unknown
/** `Content` is `never` for an operation without a body. */
type OptionalBody<Content> = [Content] extends [never]
  ? unknown
  : Content extends { content: { 'application/json': infer Body } }
    ? { readonly body?: Body }
    : unknown

interface CallOptions {
  readonly signal?: AbortSignal
  /** For a POST: a string of at most 255 characters. Default: a new one for each call. */
  readonly idempotencyKey?: string
}

type Options<Op> = PathParameters<Op> & QueryParameters<Op> & RequestBody<Op> & CallOptions
/** The options argument is optional if no option is required. */
type Arguments<Op> = object extends Options<Op> ? [options?: Options<Op>] : [options: Options<Op>]

type Item<Op> =
  Success<Op> extends { data: ReadonlyArray<infer Element>; has_more: boolean } ? Element : never
export type ListPath = {
  [P in PathOf<'get'>]: [Item<OperationAt<P, 'get'>>] extends [never] ? never : P
}[PathOf<'get'>]

export interface HubClientOptions {
  /** The URL of the hub, such as `https://hub.example.com`. */
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

/** The hub answered with an error. */
export class HubError extends Error {
  override readonly name = 'HubError'
  readonly status: number
  /** A code of the error catalogue. New codes may be added. */
  readonly code: string
  readonly param: string | null
  /** Seconds to wait before a retry; `null` without a known time. */
  readonly retryAfter: number | null
  /** Identifies the request in a support case. */
  readonly requestId: string | null
  readonly docUrl: string | null

  constructor(
    status: number,
    error: Partial<components['schemas']['ErrorDetail']>,
    requestId: string | null,
  ) {
    super(error.message ?? `The hub answered ${status}.`)
    this.status = status
    this.code = error.code ?? 'unknown'
    this.param = error.param ?? null
    this.retryAfter = error.retry_after ?? null
    this.requestId = error.request_id ?? requestId
    this.docUrl = error.doc_url ?? null
  }
}

export interface HubClient {
  readonly get: <P extends PathOf<'get'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'get'>>
  ) => Promise<Success<OperationAt<P, 'get'>>>
  /** Retries use the same idempotency key, so the hub does nothing twice. */
  readonly post: <P extends PathOf<'post'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'post'>>
  ) => Promise<Success<OperationAt<P, 'post'>>>
  readonly patch: <P extends PathOf<'patch'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'patch'>>
  ) => Promise<Success<OperationAt<P, 'patch'>>>
  readonly delete: <P extends PathOf<'delete'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'delete'>>
  ) => Promise<Success<OperationAt<P, 'delete'>>>
  /** All elements of a list, page by page, from the start or from `query.starting_after`. */
  readonly list: <P extends ListPath>(
    path: P,
    ...options: Arguments<OperationAt<P, 'get'>>
  ) => AsyncGenerator<Item<OperationAt<P, 'get'>>, void, undefined>
}

interface RequestOptions extends CallOptions {
  readonly path?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
}

/** Wait before a retry without `retry_after`: 0.5 s, 1 s, 2 s, …, at most `LONGEST_WAIT_MS`. */
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 30_000

const urlOf = (baseUrl: string, template: string, { path = {}, query = {} }: RequestOptions): string => {
  const filled = template.replaceAll(/\{([^}]+)\}/gu, (_, name: string) =>
    encodeURIComponent(String(path[name])),
  )
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) search.append(name, String(one))
    }
  }
  const text = search.toString()
  return `${baseUrl.replace(/\/+$/u, '')}${filled}${text === '' ? '' : `?${text}`}`
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

const errorOf = async (response: Response): Promise<HubError> => {
  const body: unknown = await response.json().catch(() => null)
  const error = isObject(body) && isObject(body['error']) ? body['error'] : {}
  return new HubError(response.status, error, response.headers.get('request-id'))
}

const mayRepeat = (method: Method, status: number): boolean =>
  status === 429 || (method !== 'delete' && (status === 409 || status >= 500))

/** Waits for `ms` milliseconds; rejects when the signal aborts. */
export type Wait = (ms: number, signal: AbortSignal | undefined) => Promise<void>

const waitFor: Wait = (ms, signal) => delay(ms, undefined, signal === undefined ? {} : { signal })

/** Creates a client for one API key. */
export const createHubClient = (client: HubClientOptions): HubClient => makeHubClient(client, waitFor)

/** Like `createHubClient`, with another implementation of waiting, for tests. */
export const makeHubClient = (client: HubClientOptions, wait: Wait): HubClient => {
  const { apiKey, baseUrl, fetch: send = fetch, maxRetries = 2, timeoutMs = 30_000 } = client

  const call = async (method: Method, template: string, options: RequestOptions = {}): Promise<unknown> => {
    const url = urlOf(baseUrl, template, options)
    const headers: Record<string, string> = { authorization: `Bearer ${apiKey}`, accept: 'application/json' }
    if (method === 'post') headers['idempotency-key'] = options.idempotencyKey ?? randomUUID()
    if (options.body !== undefined) headers['content-type'] = 'application/json'
    for (let tries = 0; ; tries++) {
      const timeout = AbortSignal.timeout(timeoutMs)
      let failure: unknown
      let waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries)
      try {
        const response = await send(url, {
          method: method.toUpperCase(),
          headers,
          redirect: 'error',
          signal: options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]),
          ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
        })
        if (response.ok) return await response.json()
        const error = await errorOf(response)
        if (!mayRepeat(method, response.status)) throw error
        if (error.retryAfter !== null) waitMs = error.retryAfter * 1000
        // Too long to wait within a call: the caller decides.
        if (waitMs > LONGEST_WAIT_MS) throw error
        failure = error
      } catch (error) {
        if (error instanceof HubError || method === 'delete' || options.signal?.aborted === true) throw error
        failure = error
      }
      if (tries >= maxRetries) throw failure
      await wait(waitMs, options.signal)
    }
  }

  const list = async function* (
    path: string,
    options: RequestOptions = {},
  ): AsyncGenerator<unknown, void, undefined> {
    let query = options.query ?? {}
    for (;;) {
      const page = (await call('get', path, { ...options, query })) as {
        readonly data: ReadonlyArray<unknown>
        readonly has_more: boolean
        readonly next_cursor: string | null
      }
      yield* page.data
      if (!page.has_more || page.next_cursor === null) return
      // The API refuses a cursor together with `created_after`.
      const { created_after: _, ...rest } = query
      query = { ...rest, starting_after: page.next_cursor }
    }
  }

  // The casts give each method the types of the API description.
  return {
    get: (path: string, options?: RequestOptions) => call('get', path, options),
    post: (path: string, options?: RequestOptions) => call('post', path, options),
    patch: (path: string, options?: RequestOptions) => call('patch', path, options),
    delete: (path: string, options?: RequestOptions) => call('delete', path, options),
    list,
  } as unknown as HubClient
}
