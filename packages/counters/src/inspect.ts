/** What an operator of the hub asks Redis: whether it is there, what it is, and what its clock says. */
import { Data, Effect, Redacted } from 'effect'
import { Redis } from 'ioredis'
import { keyNames } from './keys.ts'

export interface RedisState {
  readonly version: string
  /** `master`, `slave`, or what else Redis calls itself. */
  readonly role: string
  /** `null` where the server does not say, as hosted ones do. */
  readonly evictionPolicy: string | null
  /** One question and its answer, ms. */
  readonly latencyMs: number
  /** Its clock less ours, ms; right to half of `latencyMs`. */
  readonly clockMs: number
  /** Messages that the hub has accepted on `day`, as far as Redis knows. */
  readonly today: number
}

/** Redis did not answer, or not as Redis does. */
export class RedisUnusable extends Data.TaggedError('RedisUnusable')<{
  /** A code, never a message: those quote commands. */
  readonly detail: string
}> {}

const CONNECT_WITHIN_MS = 2000

const codeOf = (error: unknown): string => {
  if (error instanceof Error && error.name === 'ReplyError') {
    return /^-?([A-Z]+)\b/u.exec(error.message)?.[1] ?? 'ERR'
  }
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'closed'
}

const field = (info: string, name: string): string =>
  new RegExp(`^${name}:(.*)$`, 'mu').exec(info)?.[1]?.trim() ?? 'unknown'

/** Asks once, over a connection of its own. The caller sets the bound. `day`: of the daily count, as `utcDay` has it. */
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
      // Why it failed comes before the call that waits for it fails, and says more.
      let why: unknown = null
      redis.on('error', (error: unknown) => (why ??= error))
      return { redis, reason: () => why }
    }),
    ({ redis, reason }) =>
      Effect.tryPromise({
        try: async (): Promise<RedisState> => {
          await redis.connect()
          const info = await redis.info()
          const before = Date.now()
          const asked = performance.now()
          const [seconds, microseconds] = await redis.time()
          const latencyMs = performance.now() - asked
          const there = Number(seconds) * 1000 + Number(microseconds) / 1000
          const policy = await redis.config('GET', 'maxmemory-policy').catch(() => null)
          const today = await redis.get(keyNames(options.prefix).daily(options.day))
          return {
            version: field(info, 'redis_version'),
            role: field(info, 'role'),
            evictionPolicy: Array.isArray(policy) && typeof policy[1] === 'string' ? policy[1] : null,
            latencyMs,
            clockMs: there - (before + latencyMs / 2),
            today: Number(today ?? 0),
          }
        },
        catch: (error) => new RedisUnusable({ detail: codeOf(reason() ?? error) }),
      }),
    ({ redis }) => Effect.sync(() => redis.disconnect()),
  )
