/**
 * The failed-login gate of a process, over the shared counters in Redis. Source: specification,
 * Authentication, 4; contract, General (failed-login gate), Unavailability (Redis).
 *
 * An open gate is cached for a second: nearly all addresses have no failures, and asking Redis
 * costs a quarter of a request. After a failure in this process, its address is not cached for a
 * minute, so that the count is exact within a process. Failures in other processes are seen within
 * a second, so an address gets at most one more attempt in each process.
 */
import { Counters, type GateVerdict } from '@hub/counters'
import { Cache, Clock, Duration, Effect, Exit } from 'effect'

/** Lifetime of a cached open gate. */
const OPEN_TTL = Duration.seconds(1)
/** The sliding window of the gate: older failures do not count. */
const WINDOW_MS = 60_000
/** Addresses in the cache, and in the map of failures; some 200 bytes each. */
const CAPACITY = 10_000

/** The verdict while Redis is unavailable. */
const OPEN: GateVerdict = { allowed: true }

/** Addresses are texts; the counters decide which of them belong to one client. */
export const makeLoginGate = Effect.gen(function* () {
  const { failedLogins } = yield* Counters

  /** The time of the last failure in this process by address, oldest first. */
  const failures = new Map<string, number>()
  const hasFailed = (address: string, now: number): boolean => {
    const at = failures.get(address)
    return at !== undefined && now - at < WINDOW_MS
  }

  const cached = yield* Cache.makeWith((address: string) => failedLogins.check(address), {
    capacity: CAPACITY,
    timeToLive: (exit) => (Exit.isSuccess(exit) && exit.value.allowed ? OPEN_TTL : Duration.zero),
  })

  return {
    check: (address: string): Effect.Effect<GateVerdict> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        hasFailed(address, now) ? failedLogins.check(address) : Cache.get(cached, address),
      ).pipe(Effect.catch(() => Effect.succeed(OPEN))),

    /** Counts a failure. Ends after the count, so that the next request of the client sees it. */
    record: (address: string): Effect.Effect<void> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        failures.delete(address)
        failures.set(address, now)
        if (failures.size > CAPACITY) {
          const oldest = failures.keys().next().value
          if (oldest !== undefined) failures.delete(oldest)
        }
        return Effect.ignore(failedLogins.record(address))
      }),
  }
})
