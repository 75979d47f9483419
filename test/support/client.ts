/** An HTTP client of the hub API, and common requests. */
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import { Agent, fetch, type Headers } from 'undici'

// A kept-alive socket would hide that a killed command-api refuses connections.
const agent = new Agent({ connections: 64, keepAliveTimeout: 1000 })

export interface Answer<Body = any> {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
  /** The unparsed body. */
  readonly text: string
}

export interface Client {
  readonly get: (path: string) => Promise<Answer>
  readonly post: (path: string, body: unknown, headers?: Record<string, string>) => Promise<Answer>
  /** Sends any request. `body` is sent unchanged. */
  readonly request: (
    method: string,
    path: string,
    options?: { readonly headers?: Record<string, string>; readonly body?: string | Uint8Array },
  ) => Promise<Answer>
}

/**
 * Far above every deadline of the contract. It only ends a request that hangs, or that waits too long
 * for one of the connections of `agent`.
 */
const REQUEST_TIMEOUT_MS = 120_000

/** How long a client repeats a request that the hub answers with 503. A busy machine can need minutes for many. */
const REPEATS_WITHIN_MS = 300_000

export interface ClientOptions {
  /**
   * Whether the client repeats a request that was answered with 503, after the time of `Retry-After`, as
   * the contract tells clients to (default). False for tests of refusals.
   */
  readonly repeats?: boolean
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** Receives every response. If it throws, the request fails. */
  readonly observe?: (answer: Answer, method: string, path: string) => void
}

export const client = (baseUrl: string, key: string | null, defaults: ClientOptions = {}): Client => {
  const requestOnce: Client['request'] = async (method, path, options = {}) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...defaults.headers,
        ...options.headers,
      },
      ...(options.body === undefined ? {} : { body: options.body }),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      dispatcher: agent,
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json') === true
    const answer = {
      status: response.status,
      headers: response.headers,
      body: isJson ? JSON.parse(text) : text,
      text,
    }
    defaults.observe?.(answer, method, path)
    return answer
  }
  const request: Client['request'] = async (method, path, options) => {
    const deadline = performance.now() + REPEATS_WITHIN_MS
    for (;;) {
      const answer = await requestOnce(method, path, options)
      if (defaults.repeats === false || answer.status !== 503) return answer
      const retryAfterMs = Number(answer.headers.get('retry-after')) * 1000
      if (performance.now() + retryAfterMs > deadline) return answer
      await delay(retryAfterMs)
    }
  }
  return {
    request,
    get: (path) => request('GET', path),
    post: (path, body, headers = {}) =>
      request('POST', path, {
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
  }
}

/**
 * Returns a client, and how often the hub refused one of its sends with an unknown outcome. The client
 * repeats such a send, and the repeat may be a duplicate of itself.
 */
export const clientCountingUnknown = (
  baseUrl: string,
  key: string,
): { readonly client: Client; readonly unknown: () => number } => {
  let unknown = 0
  const observe = ({ body }: Answer): void => {
    if (body.error?.outcome === 'unknown') unknown += 1
  }
  return { client: client(baseUrl, key, { observe }), unknown: () => unknown }
}

/** The body of a send that the seeded templates permit. */
export const send = (
  messageClass: 'otp' | 'service',
  to: string,
  clientRef?: string,
): Record<string, unknown> => ({
  to,
  class: messageClass,
  ...(messageClass === 'otp'
    ? { template: 'otp_code', variables: { code: '4821' } }
    : { template: 'order_ready', variables: { order: 'A-17' } }),
  ...(clientRef === undefined ? {} : { client_ref: clientRef }),
})

/**
 * Creates a subscription that gets no event. The hub then publishes the events of its account and
 * mode in `hub.webhooks.v1`, and attempts no webhook.
 */
export const subscribeToNothing = async (hub: Client): Promise<void> => {
  const endpoint = { url: 'https://93.184.216.34/hook', event_types: ['webhook.test'] }
  const { status } = await hub.post('/v1/webhook_endpoints', endpoint)
  if (status !== 201) throw new Error(`POST /v1/webhook_endpoints returned status ${status}`)
}

/** Reads all events of the account and mode of the key, page by page. */
export const allEvents = async (hub: Client, after?: string): Promise<ReadonlyArray<any>> => {
  const events: Array<any> = []
  let cursor = after
  for (;;) {
    const { body, status } = await hub.get(
      `/v1/events?limit=1000${cursor === undefined ? '' : `&starting_after=${cursor}`}`,
    )
    if (status !== 200) throw new Error(`GET /v1/events returned status ${status}`)
    events.push(...body.data)
    if (body.has_more !== true) return events
    cursor = body.next_cursor
  }
}

/** An error of the hub, of a request or of an element of a batch. */
interface ShownError {
  readonly code: string
  readonly window?: string
}

/** Whether Redis did not check the flood windows. A repeat needs a new `Idempotency-Key`. */
export const isUnchecked = (error: ShownError | undefined): boolean =>
  error?.code === 'recipient_flood_limited' && error.window === undefined

/** Whether the contract tells the client to repeat a refused send. */
export const isTemporaryRefusal = ({ body, status }: Answer): boolean =>
  status === 429 || status >= 500 || isUnchecked(body?.error)

/** Whether the contract tells the client to repeat a rejected element of a batch. */
export const isTemporaryElement = (error: ShownError): boolean =>
  ['provider_unavailable', 'internal_error'].includes(error.code) || isUnchecked(error)

/**
 * Sends a message until it is accepted, as the contract tells clients to: with the same
 * `client_ref` after temporary refusals and broken connections.
 */
export const sendUntilAccepted = async (
  hub: Client,
  body: Record<string, unknown>,
  withinMs: number,
): Promise<{ readonly id: string }> => {
  const deadline = performance.now() + withinMs
  for (;;) {
    const answer = await hub.post('/v1/messages', body).catch(() => null)
    if (answer?.status === 202) return { id: answer.body.id }
    if (answer !== null && !isTemporaryRefusal(answer)) {
      throw new Error(`a send was refused with ${answer.status} ${JSON.stringify(answer.body)}`)
    }
    if (performance.now() > deadline) throw new Error(`a send was not accepted within ${withinMs} ms`)
    await delay(50)
  }
}

/**
 * Sends a batch until each of its messages is accepted, with the same `client_ref`s. Returns the
 * message ids in the order of the batch.
 */
export const sendBatchUntilAccepted = (
  hub: Client,
  messages: ReadonlyArray<Record<string, unknown>>,
  withinMs: number,
): Promise<ReadonlyArray<string>> =>
  eventually(
    async () => {
      const { body, status, text } = await hub.post('/v1/messages/batch', { messages })
      if (status !== 202) throw new Error(`a batch was refused with ${status} ${text}`)
      const ids: ReadonlyArray<string | undefined> = body.results.map(
        ({ message, message_id }: any) => message?.id ?? message_id,
      )
      return ids.map((id) => {
        if (id === undefined) throw new Error(`elements of a batch were rejected: ${text}`)
        return id
      })
    },
    { withinMs, everyMs: 200 },
  )
