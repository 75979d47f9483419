/** Diagnostics of Redis for hub staff: version, role, latency and clock. */
import { Data, Effect, Redacted } from 'effect'
import { Redis } from 'ioredis'
import { keyNames } from './keys.ts'
import { codeOf } from './link.ts'
import { infoField, unusableMode } from './server-info.ts'

export interface RedisState {
  readonly version: string
  /** `master`, `slave`, or another role that Redis reports. */
  readonly role: string
  /** `null`: the server does not tell it; hosted servers often do not. */
  readonly evictionPolicy: string | null
  /** Duration of one call, ms. */
  readonly latencyMs: number
  /** Clock of Redis minus clock of this process, ms. The error is at most half of `latencyMs`. */
  readonly clockMs: number
  /** Messages that the hub has accepted on `day`, according to Redis. */
  readonly today: number
}

/** The server did not answer, or is not a Redis server. */
export class RedisUnusable extends Data.TaggedError('RedisUnusable')<{
  /** See `codeOf`. */
  readonly detail: string
}> {
  override readonly message = this.detail
}

const CONNECT_WITHIN_MS = 2000

/** Reads the state once, over its own connection. The caller sets a timeout. */
export const readRedis = (options: {
  readonly url: Redacted.Redacted<string>
  readonly prefix: string
  readonly day: string
}): Effect.Effect<RedisState, RedisUnusable> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const redis = new Redis(Redacted.value(options.url), {
        connectionName: 'hubctl',
        lazyConnect: true,
        retryStrategy: () => null,
        maxRetriesPerRequest: 0,
        connectTimeout: CONNECT_WITHIN_MS,
        protocol: 2,
        disableClientInfo: true,
      })
      // This event comes before the failure of the waiting call, and names the cause.
      let firstError: unknown = null
      redis.on('error', (error: unknown) => (firstError ??= error))
      return { redis, cause: () => firstError }
    }),
    ({ cause, redis }) =>
      Effect.tryPromise({
        try: async (): Promise<RedisState> => {
          await redis.connect()
          const info = await redis.info()
          const mode = unusableMode(info)
          if (mode !== null) throw new RedisUnusable({ detail: mode })
          const before = Date.now()
          const startedAt = performance.now()
          const [seconds, microseconds] = await redis.time()
          const latencyMs = performance.now() - startedAt
          const redisMs = Number(seconds) * 1000 + Number(microseconds) / 1000
          const policy = await redis.config('GET', 'maxmemory-policy').catch(() => null)
          const today = await redis.get(keyNames(options.prefix).daily(options.day))
          return {
            version: infoField(info, 'redis_version'),
            role: infoField(info, 'role'),
            evictionPolicy: Array.isArray(policy) && typeof policy[1] === 'string' ? policy[1] : null,
            latencyMs,
            clockMs: redisMs - (before + latencyMs / 2),
            today: Number(today ?? 0),
          }
        },
        catch: (error) =>
          error instanceof RedisUnusable ? error : new RedisUnusable({ detail: codeOf(cause() ?? error) }),
      }),
    ({ redis }) => Effect.sync(() => redis.disconnect()),
  )
