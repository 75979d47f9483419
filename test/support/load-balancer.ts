/**
 * A load balancer in front of several command-apis. It polls their readiness and sends requests to
 * the ready ones in turn. It retries on another one only if a connection was refused or broke
 * before the response began.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, Headers, request } from 'undici'
import type { Answer } from './client.ts'

interface Backend {
  readonly baseUrl: string
  /** The address of `/readyz` on the admin listener. */
  readonly readyUrl: string
}

export interface LoadBalancer {
  readonly post: (path: string, key: string, body: unknown) => Promise<Answer>
  /** The number of requests that were retried on another backend. */
  readonly retries: () => number
  /** Adds a backend. */
  readonly add: (backend: Backend) => void
  /** The number of responses of a backend since the start. */
  readonly responsesOf: (baseUrl: string) => number
  readonly close: () => Promise<void>
}

/** The interval of a frequent readiness probe of a load balancer. */
const PROBE_EVERY_MS = 200
/** A slower probe counts as failed, as with the default of Kubernetes. */
const PROBE_WITHIN_MS = 1000
/** Far above every deadline of the contract. It only ends a request that hangs. */
const REQUEST_WITHIN_MS = 30_000
/** The pause after no backend accepted a connection. */
const PAUSE_MS = 20

/** Error codes of undici for a request that reached no server or got no response. */
const NO_ANSWER: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

const isWithoutAnswer = (error: unknown): boolean => {
  const { code } = error as { readonly code?: string }
  return code !== undefined && NO_ANSWER.has(code)
}

/**
 * Connections to each process. Enough for some hundred sends a second while one process is away and
 * responses take a second.
 */
const CONNECTIONS = 512

export const startLoadBalancer = (first: ReadonlyArray<Backend>): LoadBalancer => {
  const backends: Array<Backend> = []
  const agent = new Agent({ connections: CONNECTIONS })
  // A probe must not wait behind requests, and must not reuse an old connection.
  const probing = new Agent({ pipelining: 0 })
  const ready = new Set<Backend>()
  const answers = new Map<string, number>()
  const closing = new AbortController()
  let retries = 0
  let turn = 0

  const probe = async (backend: Backend): Promise<void> => {
    while (!closing.signal.aborted) {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(PROBE_WITHIN_MS)])
      const answer = await request(backend.readyUrl, { dispatcher: probing, signal }).catch(() => null)
      await answer?.body.dump().catch(() => {})
      if (answer?.statusCode === 200) ready.add(backend)
      else ready.delete(backend)
      await delay(PROBE_EVERY_MS, undefined, { signal: closing.signal }).catch(() => {})
    }
  }
  const probes: Array<Promise<void>> = []
  const add = (backend: Backend): void => {
    backends.push(backend)
    ready.add(backend)
    probes.push(probe(backend))
  }
  for (const backend of first) add(backend)

  const next = (tried: ReadonlySet<Backend>): Backend => {
    const open = [...ready].filter((backend) => !tried.has(backend))
    // If no backend is known to be ready, any of them may have become ready since the last probe.
    const among = open.length > 0 ? open : backends
    return among[turn++ % among.length]!
  }

  return {
    post: async (path, key, body) => {
      const deadline = performance.now() + REQUEST_WITHIN_MS
      const tried = new Set<Backend>()
      for (;;) {
        const backend = next(tried)
        const { baseUrl } = backend
        try {
          // `fetch` costs several times as much CPU, and the load shares two cores with the hub.
          const response = await request(baseUrl + path, {
            method: 'POST',
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
            body: JSON.stringify(body),
            headersTimeout: REQUEST_WITHIN_MS,
            bodyTimeout: REQUEST_WITHIN_MS,
            dispatcher: agent,
          })
          const text = await response.body.text()
          answers.set(baseUrl, (answers.get(baseUrl) ?? 0) + 1)
          const headers = new Headers(response.headers as Record<string, string>)
          const isJson = headers.get('content-type')?.includes('json') === true
          return {
            status: response.statusCode,
            headers,
            body: isJson ? JSON.parse(text) : text,
            text,
          }
        } catch (error) {
          if (!isWithoutAnswer(error) || performance.now() > deadline) throw error
          retries += 1
          tried.add(backend)
          if (tried.size >= backends.length) {
            tried.clear()
            await delay(PAUSE_MS)
          }
        }
      }
    },
    retries: () => retries,
    add,
    responsesOf: (baseUrl) => answers.get(baseUrl) ?? 0,
    close: async () => {
      closing.abort()
      await Promise.all(probes)
      await Promise.all([agent.destroy(), probing.destroy()])
    },
  }
}
