/**
 * The failed-login gate as a process asks it. Source: specification, Authentication, 4; contract, General (failed-login gate),
 * Unavailability (Redis).
 *
 * An address without failures is asked about once a second and not with every request: nearly all requests are of such addresses, and
 * asking costs a quarter of what a request costs in all. The first failure seen here ends that for a minute, so that within a process
 * the count is exact. What other processes count is seen within the second: an address that fails at several of them at once gets at
 * most one attempt more at each.
 */
import { Counters, type GateVerdict } from '@hub/counters'
import { Cache, Clock, Duration, Effect, Exit } from 'effect'

/** How long an open gate is believed for an address without failures here. */
const BELIEVED_FOR = Duration.seconds(1)
/** The sliding window of the gate: a failure before it counts no more. */
const WINDOW_MS = 60_000
/** Addresses in memory, of each kind; some 200 bytes each. */
const CAPACITY = 10_000

/** Counters that are away keep nobody out. */
const OPEN: GateVerdict = { allowed: true }

/** The gate over `Counters`. Addresses are texts; the counters know which of them are one client. */
export const makeLoginGate = Effect.gen(function* () {
  const { failedLogins } = yield* Counters

  /** When the last failure of an address was, oldest first. */
  const failures = new Map<string, number>()
  const hasFailed = (address: string, now: number): boolean => {
    const at = failures.get(address)
    return at !== undefined && now - at < WINDOW_MS
  }

  const believed = yield* Cache.makeWith((address: string) => failedLogins.check(address), {
    capacity: CAPACITY,
    timeToLive: (exit) => (Exit.isSuccess(exit) && exit.value.allowed ? BELIEVED_FOR : Duration.zero),
  })

  return {
    check: (address: string): Effect.Effect<GateVerdict> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        hasFailed(address, now) ? failedLogins.check(address) : Cache.get(believed, address),
      ).pipe(Effect.catch(() => Effect.succeed(OPEN))),

    /** Counts a failure. Ends when it is counted, so that whoever asks again after the answer finds it. */
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
