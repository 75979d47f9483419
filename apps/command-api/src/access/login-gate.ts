/**
 * The failed-login gate of a process, over the shared counters in Redis. Source: AUTH-8 to AUTH-15, AVL-17.
 *
 * An open gate is cached for a second: nearly all addresses have no failures, and asking Redis
 * costs a quarter of a request. After a failure in this process, its address is not cached for a
 * minute. The cache concerns only keys that the process knows already: every other key is an
 * attempt, which Redis counts before the key is checked. So concurrent attempts cannot exceed the
 * limit, and an attempt that could close the gate waits until others have ended. If they take too long,
 * it gets 503: only failed logins get 429.
 */
import { randomUUID } from 'node:crypto'
import { type ApiError, apiError } from '@hub/contract'
import { Counters, type CountersUnavailable, type GateVerdict } from '@hub/counters'
import { Cache, Clock, Duration, Effect, Exit, Semaphore } from 'effect'

/** Lifetime of a cached open gate. */
const OPEN_TTL = Duration.seconds(1)
/** The sliding window of the gate: older failures do not count. */
const WINDOW_MS = 60_000
/** Addresses in the cache, and in the map of failures; some 200 bytes each. */
const CAPACITY = 10_000

/** Attempts of an address at a time in this process: as many as may fail. Others wait here. */
const CONCURRENT = 21
/** Attempts of an address that wait in this process. Further ones get 503. */
const MAX_WAITING = 500
/** While an attempt waits for others to end, the first one of an address asks Redis in this interval. */
const ASK_EVERY = Duration.millis(10)
/** Shorter than the deadline of a request, so that other requests of the address can wait next. */
const WAIT_WITHIN = Duration.seconds(2)

/** The verdict while Redis is unavailable. */
const OPEN: GateVerdict = { allowed: true }

const LOCKED_OUT =
  'Failed logins have locked out this client address. Correct the API key, and repeat after retry_after seconds.'
/**
 * Attempts wait for others that have not ended: PostgreSQL or Redis is slow. The key may be valid, so this
 * is no fault of the client.
 */
const NOT_CHECKED = apiError('internal_error', {
  retryAfter: 2,
  reason: 'the API key was not checked in time, because other key checks of the client address take long',
})

export const lockedOut = (retryAfter: number): ApiError =>
  apiError('rate_limited', { retryAfter, message: LOCKED_OUT })

interface Attempts {
  readonly semaphore: Semaphore.Semaphore
  /** One of the attempts that wait asks Redis, in the order of their arrival. */
  readonly asking: Semaphore.Semaphore
  /** Attempts that wait or are in progress. */
  count: number
}

/** Addresses are texts; the counters decide which of them belong to one client. */
export const makeLoginGate = Effect.gen(function* () {
  const { failedLogins } = yield* Counters

  /** The time of the last failure in this process by address, oldest first. */
  const failures = new Map<string, number>()
  const hasFailed = (address: string, now: number): boolean => {
    const at = failures.get(address)
    return at !== undefined && now - at < WINDOW_MS
  }
  const remember = (address: string): Effect.Effect<void> =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      failures.delete(address)
      failures.set(address, now)
      if (failures.size <= CAPACITY) return
      const oldest = failures.keys().next().value
      if (oldest !== undefined) failures.delete(oldest)
    })

  const cached = yield* Cache.makeWith((address: string) => failedLogins.check(address), {
    capacity: CAPACITY,
    timeToLive: (exit) => (Exit.isSuccess(exit) && exit.value.allowed ? OPEN_TTL : Duration.zero),
  })

  const inProgress = new Map<string, Attempts>()
  /** Runs `work` in the turn of its address. */
  const inTurn = <A, E, R>(
    address: string,
    work: (attempts: Attempts) => Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | ApiError, R> =>
    Effect.suspend((): Effect.Effect<A, E | ApiError, R> => {
      const attempts = inProgress.get(address) ?? {
        semaphore: Semaphore.makeUnsafe(CONCURRENT),
        asking: Semaphore.makeUnsafe(1),
        count: 0,
      }
      if (attempts.count >= CONCURRENT + MAX_WAITING) {
        return Effect.fail(NOT_CHECKED)
      }
      inProgress.set(address, attempts)
      attempts.count++
      return attempts.semaphore.withPermit(work(attempts)).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            attempts.count--
            if (attempts.count === 0) inProgress.delete(address)
          }),
        ),
      )
    })

  /** Begins an attempt; false if others must end before. */
  const tryBegin = (
    address: string,
    attempt: string,
  ): Effect.Effect<boolean, ApiError | CountersUnavailable> =>
    Effect.flatMap(failedLogins.begin(address, attempt), (verdict) =>
      verdict.kind === 'closed'
        ? Effect.fail(lockedOut(verdict.retryAfterSeconds))
        : Effect.succeed(verdict.kind === 'begun'),
    )

  /** Begins an attempt when others have ended, if necessary. False while Redis is unavailable. */
  const begin = (
    address: string,
    attempt: string,
    { asking }: Attempts,
  ): Effect.Effect<boolean, ApiError> => {
    const wait: Effect.Effect<void, ApiError | CountersUnavailable> = Effect.flatMap(
      Effect.delay(tryBegin(address, attempt), ASK_EVERY),
      (begun) => (begun ? Effect.void : wait),
    )
    const waitInTurn = Effect.timeoutOrElse(asking.withPermit(wait), {
      duration: WAIT_WITHIN,
      orElse: () => Effect.fail(NOT_CHECKED),
    })
    return tryBegin(address, attempt).pipe(
      Effect.flatMap((begun) => (begun ? Effect.void : waitInTurn)),
      Effect.as(true),
      Effect.catchTag('CountersUnavailable', () => Effect.succeed(false)),
    )
  }

  return {
    check: (address: string): Effect.Effect<GateVerdict> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        hasFailed(address, now) ? failedLogins.check(address) : Cache.get(cached, address),
      ).pipe(Effect.catch(() => Effect.succeed(OPEN))),

    /**
     * Runs a key check as an attempt of the address. `null` from it is a failed login, which is
     * recorded before this ends, so that the next request of the client finds it counted. Every
     * other end, also an interruption, undoes the attempt. `known`: the result without an attempt,
     * if another one with the same key has ended meanwhile.
     */
    attempt: <A, E, R>(
      address: string,
      known: Effect.Effect<A | null>,
      check: Effect.Effect<A | null, E, R>,
    ): Effect.Effect<A | null, E | ApiError, R> =>
      inTurn(address, (attempts) => {
        const attempt = randomUUID()
        const end = (result: 'failed' | 'undone') => Effect.ignore(failedLogins.end(address, attempt, result))
        const counted = Effect.uninterruptibleMask((restore) =>
          restore(begin(address, attempt, attempts)).pipe(
            Effect.onInterrupt(() => end('undone')),
            Effect.flatMap((begun) =>
              Effect.onExit(restore(check), (exit) =>
                Exit.isSuccess(exit) && exit.value === null
                  ? Effect.andThen(remember(address), end('failed'))
                  : begun
                    ? end('undone')
                    : Effect.void,
              ),
            ),
          ),
        )
        return Effect.flatMap(known, (found): Effect.Effect<A | null, E | ApiError, R> =>
          found === null ? counted : Effect.succeed(found),
        )
      }),
  }
})
