/**
 * Lets a dispatcher use its part of the rate at one operator: tells what waits and what was
 * answered, accepts the grants, and wakes the handover loop when the next part is due.
 */
import { Effect, type Scope } from 'effect'
import type { GrantedParts, Waiting } from '../pacing/granted-parts.ts'
import type { Grant, GrantRequest } from '../pacing/hub-rate.ts'

/** The messages that wait for the operator, and the parts of the next one. */
export interface Demand extends Waiting {
  readonly nextParts: number
}

/** What a dispatcher tells about itself is added later. */
export type OwnGrantRequest = Omit<GrantRequest, 'member' | 'shards'>

/**
 * The least time between two wake-ups, ms. Parts that are due together are submitted together, which
 * costs less. Ten parts of a thousand per second are no burst.
 */
const WAKE_MS = 10
/** The wait after a request that did not arrive, ms. */
const FAILED_MS = 100

export interface Pacer {
  /** The handover loop has taken what it may take at this time. */
  readonly settled: (at: number) => void
}

export const makePacer = (options: {
  readonly granted: GrantedParts
  readonly demand: () => Demand
  /** Returns `null` if the request did not arrive. */
  readonly request: (request: OwnGrantRequest) => Effect.Effect<Grant | null>
  /** Runs the handover loop, which then calls `settled`. */
  readonly wake: () => void
  /** Milliseconds of a clock that never jumps. */
  readonly now: () => number
  readonly fork: (effect: Effect.Effect<void>) => void
}): Effect.Effect<Pacer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { granted, now } = options
    let isRequesting = false
    let isClosed = false
    let wokenAt = Number.NEGATIVE_INFINITY
    let failedAt = Number.NEGATIVE_INFINITY
    let timer: { readonly at: number; readonly timeout: NodeJS.Timeout } | null = null

    const request = (demand: Demand) => {
      isRequesting = true
      const own = { ...granted.request(demand, now()), nextParts: demand.nextParts }
      const requesting = Effect.map(options.request(own), (grant) => {
        isRequesting = false
        if (grant === null) {
          failedAt = now()
          granted.requestLost(own)
        } else granted.accept(grant, now())
        options.wake()
      })
      // The handover loop is running, and must not be called before it has returned.
      options.fork(Effect.andThen(Effect.yieldNow, requesting))
    }

    const wakeAt = (at: number) => {
      if (timer !== null && timer.at <= at) return
      if (timer !== null) clearTimeout(timer.timeout)
      timer = {
        at,
        timeout: setTimeout(
          () => {
            timer = null
            wokenAt = now()
            options.wake()
          },
          Math.max(0, at - now()),
        ),
      }
    }

    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
        if (timer !== null) clearTimeout(timer.timeout)
      }),
    )

    return {
      settled: (at) => {
        if (isClosed) return
        const demand = options.demand()
        const requestAt = () => Math.max(granted.requestAt(demand), failedAt + FAILED_MS)
        if (!isRequesting && requestAt() <= now()) request(demand)
        // As the loop saw it: what may be taken since then has no other wake-up.
        const isWaiting = demand.otp + demand.service > 0 && !granted.mayTake(at)
        const next = Math.min(
          isRequesting ? Number.POSITIVE_INFINITY : requestAt(),
          isWaiting || granted.isHeld(at) ? granted.nextAt(at) : Number.POSITIVE_INFINITY,
        )
        if (Number.isFinite(next)) wakeAt(Math.max(next, wokenAt + WAKE_MS))
      },
    }
  })
