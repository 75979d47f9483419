/** The client of one Redis server, and questions to a server over a connection of their own. */
import { isIP } from 'node:net'
import { Effect } from 'effect'
import { Redis } from 'ioredis'
import { withDeadline } from './deadline.ts'
import type { CountersUnavailable } from './port.ts'

/**
 * Of each step of connecting, for which no caller waits. Over a slow network, a login takes several
 * times as long as a call. Longer would delay the end of an outage in which an attempt hangs.
 */
export const CONNECT_STEP_MS = 3000

/** An idle connection whose peer is gone then ends after about 15 s. */
const KEEP_ALIVE_MS = 5000

interface Client {
  readonly redis: Redis
  /** Opens the connection. Rejects with the error that says most about the cause. */
  readonly connect: () => Promise<void>
}

export interface ClientOptions {
  /** The connection name in `CLIENT LIST`. */
  readonly name: string
  /** The deadline of each step of connecting, ms. */
  readonly stepMs: number
  /** The host name in the certificate of a server that is named by an IP address; `null`: that address. */
  readonly tlsName: string | null
}

/** A certificate rarely has the address of its server, which changes. Otherwise the host of the URL must be in it. */
const tlsOf = (url: string, tlsName: string | null) => {
  if (tlsName === null) return {}
  const { hostname, protocol } = new URL(url)
  const isAddress = isIP(hostname.replace(/^\[|\]$/gu, '')) !== 0
  return protocol === 'rediss:' && isAddress ? { tls: { servername: tlsName } } : {}
}

/** `url`: of one server, with `redis://` or `rediss://`. */
export const makeClient = (
  url: string,
  { name, stepMs, tlsName }: ClientOptions,
  /** Whether the server must have loaded its data. */
  mustHaveLoaded = true,
): Client => {
  const redis = new Redis(url, {
    ...tlsOf(url, tlsName),
    connectionName: name,
    lazyConnect: true,
    // `server-link.ts` does this, with a bound and a check of the result.
    retryStrategy: () => null,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // Pipelines of ioredis wait for each other: a call would take up to two round trips.
    enableAutoPipelining: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: mustHaveLoaded,
    connectTimeout: stepMs,
    keepAlive: KEEP_ALIVE_MS,
    // Old servers do not know the newer protocol, and nothing here needs it.
    protocol: 2,
    disableClientInfo: true,
  })
  // Without a listener ioredis writes to the console. Later, a failed call or the event `close` reports the
  // error. While it connects, only this event names the cause.
  let firstError: unknown = null
  redis.on('error', (error: unknown) => (firstError ??= error))
  return {
    redis,
    connect: () => redis.connect().catch((error: unknown) => Promise.reject(firstError ?? error)),
  }
}

/** Asks a server something, over a connection of its own. It sends nothing else, which a user may not be permitted. */
export const ask = <A>(
  url: string,
  options: ClientOptions,
  question: (redis: Redis) => Promise<A>,
): Effect.Effect<A, CountersUnavailable> =>
  Effect.acquireUseRelease(
    Effect.sync(() => makeClient(url, options, false)),
    ({ connect, redis }) =>
      withDeadline(connect, options.stepMs).pipe(
        Effect.andThen(withDeadline(() => question(redis), options.stepMs)),
      ),
    ({ redis }) => Effect.sync(() => redis.disconnect()),
  )
