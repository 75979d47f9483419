/**
 * The HTTP client of a run. It knows the addresses of all command-apis and prefers those that are
 * ready, as a load balancer does. It never repeats a request, so that each one is in the history.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, request } from 'undici'

export interface Answer {
  /** Null: the connection broke, or no answer came in time. */
  readonly status: number | null
  readonly body: any
  readonly digest: string | null
  readonly replayed: boolean
  readonly began: number
  readonly ended: number
}

export interface Api {
  readonly post: (
    key: string,
    path: string,
    body: unknown,
    options: { readonly withinMs: number; readonly idempotencyKey?: string | null },
  ) => Promise<Answer>
  readonly get: (key: string, path: string) => Promise<Answer>
  readonly close: () => Promise<void>
}

const PROBE_EVERY_MS = 250
const PROBE_WITHIN_MS = 1000
const GET_WITHIN_MS = 10_000
/** To each address. A request that waits for a connection would count as not answered. */
const CONNECTIONS = 1024

export const digestOf = (text: string): string =>
  createHash('sha256').update(text).digest('base64url').slice(0, 12)

export const openApi = (
  addresses: ReadonlyArray<{ readonly baseUrl: string; readonly readyUrl: string }>,
): Api => {
  const agent = new Agent({ connections: CONNECTIONS, keepAliveTimeout: 4000 })
  const probing = new Agent({ pipelining: 0 })
  const ready = new Set(addresses)
  const closing = new AbortController()
  let turn = 0

  const probes = addresses.map(async (address) => {
    while (!closing.signal.aborted) {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(PROBE_WITHIN_MS)])
      const answer = await request(address.readyUrl, { dispatcher: probing, signal }).catch(() => null)
      await answer?.body.dump().catch(() => {})
      if (answer?.statusCode === 200) ready.add(address)
      else ready.delete(address)
      await delay(PROBE_EVERY_MS, undefined, { signal: closing.signal }).catch(() => {})
    }
  })
  const next = (): string => {
    const among = ready.size > 0 ? [...ready] : addresses
    return among[turn++ % among.length]!.baseUrl
  }
  const ask = async (
    method: 'GET' | 'POST',
    path: string,
    headers: Record<string, string>,
    body: string | null,
    withinMs: number,
  ): Promise<Answer> => {
    const began = Date.now()
    try {
      const response = await request(next() + path, {
        method,
        headers,
        body,
        dispatcher: agent,
        signal: AbortSignal.timeout(withinMs),
      })
      const text = await response.body.text()
      return {
        status: response.statusCode,
        body: text.startsWith('{') ? JSON.parse(text) : null,
        digest: digestOf(text),
        replayed: response.headers['idempotent-replayed'] === 'true',
        began,
        ended: Date.now(),
      }
    } catch {
      return { status: null, body: null, digest: null, replayed: false, began, ended: Date.now() }
    }
  }
  return {
    post: (key, path, body, { idempotencyKey, withinMs }) =>
      ask(
        'POST',
        path,
        {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          ...(idempotencyKey == null ? {} : { 'idempotency-key': idempotencyKey }),
        },
        JSON.stringify(body),
        withinMs,
      ),
    get: (key, path) => ask('GET', path, { authorization: `Bearer ${key}` }, null, GET_WITHIN_MS),
    close: async () => {
      closing.abort()
      await Promise.all(probes)
      await Promise.all([agent.destroy(), probing.destroy()])
    },
  }
}
