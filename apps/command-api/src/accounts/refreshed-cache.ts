/**
 * A cache of what is read from PostgreSQL. Nobody gets a value that is older than its lifetime. A value
 * that is used near its end is read again in the background, so that requests of a busy client never
 * wait for it. The slower PostgreSQL is, the earlier this happens.
 */
import { Cache, Clock, Duration, Effect, Exit, Option, type Scope } from 'effect'

interface Entry<A> {
  readonly value: A
  /** Milliseconds since the epoch. */
  readonly readAt: number
  /** How long the read took, ms. */
  readonly tookMs: number
}

interface RefreshedCacheOptions<A, E> {
  readonly read: (key: string) => Effect.Effect<A, E>
  readonly capacity: number
  /** Lifetime of a value, ms; 0: it is not cached. */
  readonly lifetimeMs: (value: A) => number
}

/** The last part of a lifetime, in which a used value is read again. On a busy machine the read waits. */
const LAST_PART = 1 / 2
/** A read may take twice as long as the last one. */
const READS = 2

export interface RefreshedCache<A, E> {
  readonly get: (key: string) => Effect.Effect<A, E>
  /** The cached value, without a read. */
  readonly cached: (key: string) => Effect.Effect<A | null>
  /** Adds a value that was read together with another one. */
  readonly set: (key: string, value: A) => Effect.Effect<void>
}

export const makeRefreshedCache = <A, E>({
  capacity,
  lifetimeMs,
  read,
}: RefreshedCacheOptions<A, E>): Effect.Effect<RefreshedCache<A, E>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const timed = (key: string) =>
      Effect.gen(function* () {
        const askedAt = yield* Clock.currentTimeMillis
        const value = yield* read(key)
        const readAt = yield* Clock.currentTimeMillis
        return { value, readAt, tookMs: readAt - askedAt } satisfies Entry<A>
      })
    const cache = yield* Cache.makeWith(timed, {
      capacity,
      timeToLive: (exit: Exit.Exit<Entry<A>, E>) =>
        Exit.isSuccess(exit) ? Duration.millis(lifetimeMs(exit.value.value)) : Duration.zero,
    })
    const refreshing = new Set<string>()
    const refresh = (key: string): Effect.Effect<void> =>
      timed(key).pipe(
        Effect.flatMap((entry) => Cache.set(cache, key, entry)),
        // The value stays until the end of its lifetime.
        Effect.ignore,
        Effect.ensuring(Effect.sync(() => refreshing.delete(key))),
        Effect.forkIn(scope),
        Effect.asVoid,
      )
    /** Reads a value again if it ends soon. */
    const used = (key: string, { readAt, tookMs, value }: Entry<A>): Effect.Effect<A> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const lifetime = lifetimeMs(value)
        const left = readAt + lifetime - now
        if (left > Math.max(LAST_PART * lifetime, READS * tookMs) || refreshing.has(key)) {
          return Effect.succeed(value)
        }
        refreshing.add(key)
        return Effect.as(refresh(key), value)
      })
    return {
      get: (key) => Effect.flatMap(Cache.get(cache, key), (entry) => used(key, entry)),
      cached: (key) =>
        Effect.flatMap(Cache.getSuccess(cache, key), (found): Effect.Effect<A | null> =>
          Option.isNone(found) ? Effect.succeed(null) : used(key, found.value),
        ),
      set: (key, value) =>
        Effect.flatMap(Clock.currentTimeMillis, (readAt) =>
          Cache.set(cache, key, { value, readAt, tookMs: 0 }),
        ),
    }
  })
