/** Calls to the hub, with the types of its description. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { components, paths } from './contract.ts'

type Method = 'get' | 'post' | 'delete'

/** The paths that have an operation of this method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: [NonNullable<paths[P][M]>] extends [never] ? never : P
}[keyof paths]

type OperationAt<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>

/** What an operation answers when it succeeds. */
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
  : unknown

interface CallOptions {
  readonly signal?: AbortSignal
  /**
   * Of a POST: any string of your own for this request, at most 255 characters. Without one, each
   * call has a new one, which covers its own retries.
   */
  readonly idempotencyKey?: string
}

type Options<Op> = PathParameters<Op> & QueryParameters<Op> & RequestBody<Op> & CallOptions
/** Options may be left out where nothing in them is needed. */
type Arguments<Op> = object extends Options<Op> ? [options?: Options<Op>] : [options: Options<Op>]

/** What one page of a list holds. */
type Item<Op> =
  Success<Op> extends { data: ReadonlyArray<infer Element>; has_more: boolean } ? Element : never
/** The paths of lists. */
export type ListPath = {
  [P in PathOf<'get'>]: [Item<OperationAt<P, 'get'>>] extends [never] ? never : P
}[PathOf<'get'>]

export interface HubClientOptions {
  /** Such as `https://hub.example.com`. */
  readonly baseUrl: string
  /** `hub_live_…` or `hub_test_…` */
  readonly apiKey: string
  /**
   * How often a call is repeated when nothing came of it (connection, 409, 429, 5xx). Default 2.
   */
  readonly maxRetries?: number
  /** Of one try, milliseconds. Default 30,000. */
  readonly timeoutMs?: number
  /** Default: the global one. */
  readonly fetch?: typeof fetch
}

/** The hub has refused, or failed. */
export class HubError extends Error {
  override readonly name = 'HubError'
  readonly status: number
  /** From the catalogue of errors; new ones may come. */
  readonly code: string
  readonly param: string | null
  /** Seconds after which a repeat is worth while; `null` where there is no such time. */
  readonly retryAfter: number | null
  /** Tell it to support. */
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
  /** Repeated under one idempotency key: what was done is not done twice. */
  readonly post: <P extends PathOf<'post'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'post'>>
  ) => Promise<Success<OperationAt<P, 'post'>>>
  readonly delete: <P extends PathOf<'delete'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'delete'>>
  ) => Promise<Success<OperationAt<P, 'delete'>>>
  /** All elements of a list, page after page, from its first or from `query.starting_after` on. */
  readonly list: <P extends ListPath>(
    path: P,
    ...options: Arguments<OperationAt<P, 'get'>>
  ) => AsyncGenerator<Item<OperationAt<P, 'get'>>, void, undefined>
}

interface Wanted extends CallOptions {
  readonly path?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
}

/**
 * Waits between tries, where the hub does not say how long: 0.5 s, 1 s, 2 s …, and no longer than
 * this, ms.
 */
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 30_000

const urlOf = (baseUrl: string, template: string, { path = {}, query = {} }: Wanted): string => {
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

/** Waits so long, ms; ends early, with an error, when the caller gives up. */
export type Wait = (ms: number, signal: AbortSignal | undefined) => Promise<void>

const waitAwhile: Wait = (ms, signal) => delay(ms, undefined, signal === undefined ? {} : { signal })

/** A client of one key. */
export const createHubClient = (client: HubClientOptions): HubClient => makeHubClient(client, waitAwhile)

/** The same, with the clock in the caller's hands. */
export const makeHubClient = (client: HubClientOptions, wait: Wait): HubClient => {
  const { apiKey, baseUrl, fetch: send = fetch, maxRetries = 2, timeoutMs = 30_000 } = client

  const call = async (method: Method, template: string, wanted: Wanted = {}): Promise<unknown> => {
    const url = urlOf(baseUrl, template, wanted)
    const headers: Record<string, string> = { authorization: `Bearer ${apiKey}`, accept: 'application/json' }
    if (method === 'post') headers['idempotency-key'] = wanted.idempotencyKey ?? randomUUID()
    if (wanted.body !== undefined) headers['content-type'] = 'application/json'
    for (let tries = 0; ; tries++) {
      const timeout = AbortSignal.timeout(timeoutMs)
      let failure: unknown
      let waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries)
      try {
        const response = await send(url, {
          method: method.toUpperCase(),
          headers,
          redirect: 'error',
          signal: wanted.signal === undefined ? timeout : AbortSignal.any([wanted.signal, timeout]),
          ...(wanted.body === undefined ? {} : { body: JSON.stringify(wanted.body) }),
        })
        if (response.ok) return await response.json()
        const error = await errorOf(response)
        if (!mayRepeat(method, response.status)) throw error
        if (error.retryAfter !== null) waitMs = error.retryAfter * 1000
        // Longer than anybody waits in a call: the caller decides.
        if (waitMs > LONGEST_WAIT_MS) throw error
        failure = error
      } catch (error) {
        if (error instanceof HubError || method === 'delete' || wanted.signal?.aborted === true) throw error
        failure = error
      }
      if (tries >= maxRetries) throw failure
      await wait(waitMs, wanted.signal)
    }
  }

  const list = async function* (path: string, wanted: Wanted = {}): AsyncGenerator<unknown, void, undefined> {
    let query = wanted.query ?? {}
    for (;;) {
      const page = (await call('get', path, { ...wanted, query })) as {
        readonly data: ReadonlyArray<unknown>
        readonly has_more: boolean
        readonly next_cursor: string | null
      }
      yield* page.data
      if (!page.has_more || page.next_cursor === null) return
      // A cursor takes the place of a moment: the two do not go together.
      const { created_after: _, ...rest } = query
      query = { ...rest, starting_after: page.next_cursor }
    }
  }

  // The types of the description are what the hub answers; here they are only put on.
  return {
    get: (path: string, wanted?: Wanted) => call('get', path, wanted),
    post: (path: string, wanted?: Wanted) => call('post', path, wanted),
    delete: (path: string, wanted?: Wanted) => call('delete', path, wanted),
    list,
  } as unknown as HubClient
}
