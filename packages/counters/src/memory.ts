/**
 * The counters in memory: the test double at the port, held to the same contract suite as the real one. One process; time is that of
 * Effect's clock, so that tests can move it, plus what `advance` added.
 */
import { Clock, Context, Effect, Layer, Stream } from 'effect'
import { gateAddress } from './address.ts'
import {
  Counters,
  type CountersShape,
  CountersUnavailable,
  type FloodAcceptance,
  type FloodReservation,
  type FloodRequest,
  type FloodVerdict,
  RESERVATION_LEASE_MS,
} from './port.ts'
import {
  atLeastOne,
  DAY_MS,
  FULL_BUCKET_US,
  ROUNDING_US,
  GATE_REMEMBERS,
  GATE_WINDOW_MS,
  HOUR_MS,
  toTenths,
  toWaitSeconds,
  WINDOW_NAMES,
} from './rules.ts'

/** How the store behaves: it works, it is not there, or it never answers (which ends as `timeout`, at once here). */
export type CountersState = 'up' | 'refusing' | 'hanging'

/** What a test can do to the counters. */
export class MemoryCounters extends Context.Service<
  MemoryCounters,
  {
    readonly set: (state: CountersState) => Effect.Effect<void>
    /** Moves the time of the store on. */
    readonly advance: (ms: number) => Effect.Effect<void>
    /** The time of the store, milliseconds since the epoch. */
    readonly now: Effect.Effect<number>
    /** Loses everything, as a store does that restarts without its data. */
    readonly empty: Effect.Effect<void>
  }
>()('@hub/counters/MemoryCounters') {}

interface Place {
  readonly id: string
  readonly at: number
}

const placeKey = (message: FloodReservation) => `${message.account}:${message.mode}:${message.recipient}`
const leaseKey = (message: FloodReservation) => `${message.reservationId} ${placeKey(message)}`

export interface MemoryCountersOptions {
  /** `ready` (the default), or `empty`: waiting for a rebuild. */
  readonly generation?: 'ready' | 'empty'
  /** Milliseconds since the epoch, in place of Effect's clock. */
  readonly now?: () => number
}

const make = (options: MemoryCountersOptions) => {
  let state: CountersState = 'up'
  let advanced = 0
  let generation: 'ready' | 'empty' | { readonly token: object } = options.generation ?? 'ready'
  const buckets = new Map<string, { readonly at: number; readonly debt: number }>()
  const failures = new Map<string, ReadonlyArray<number>>()
  /** By number, oldest first. */
  const places = new Map<string, ReadonlyArray<Place>>()
  const leases = new Map<string, { readonly message: FloodReservation; readonly until: number }>()
  const days = new Map<string, number>()
  let unwritten: ReadonlyArray<FloodAcceptance> = []

  const now = Effect.map(Clock.currentTimeMillis, (clock) => (options.now?.() ?? clock) + advanced)

  const unavailable = (): CountersUnavailable | null =>
    state === 'up'
      ? null
      : new CountersUnavailable({
          reason: state === 'hanging' ? 'timeout' : 'unreachable',
          detail: state,
        })

  const step = <A>(body: (now: number) => A | CountersUnavailable): Effect.Effect<A, CountersUnavailable> =>
    Effect.flatMap(now, (time) => {
      const failure = unavailable()
      if (failure !== null) return Effect.fail(failure)
      writeKept()
      const answer = body(time)
      return answer instanceof CountersUnavailable ? Effect.fail(answer) : Effect.succeed(answer)
    })

  const drop = (message: FloodReservation) => {
    const key = placeKey(message)
    places.set(
      key,
      (places.get(key) ?? []).filter(({ id }) => id !== message.reservationId),
    )
    leases.delete(leaseKey(message))
  }

  const add = (message: FloodReservation, at: number) => {
    const key = placeKey(message)
    places.set(
      key,
      [...(places.get(key) ?? []), { id: message.reservationId, at }].toSorted((a, b) => a.at - b.at),
    )
  }

  const record = (items: ReadonlyArray<FloodAcceptance>) => {
    for (const item of items) {
      const known = (places.get(placeKey(item)) ?? []).some(({ id }) => id === item.reservationId)
      if (!leases.delete(leaseKey(item)) && !known) add(item, item.at)
    }
  }

  const writeKept = () => {
    record(unwritten)
    unwritten = []
  }

  const reserve = (item: FloodRequest, now: number): FloodVerdict => {
    const taken = places.get(placeKey(item)) ?? []
    const lease = { message: item, until: now + RESERVATION_LEASE_MS }
    if (taken.some(({ id }) => id === item.reservationId)) {
      if (leases.has(leaseKey(item))) leases.set(leaseKey(item), lease)
      return { reserved: true }
    }
    const waits = [
      { nth: 1, length: Math.min(DAY_MS, item.windows.pauseSeconds * 1000) },
      { nth: item.windows.perHour, length: HOUR_MS },
      { nth: item.windows.perDay, length: DAY_MS },
    ].map(({ nth, length }) => {
      if (nth === null || length <= 0) return 0
      const at = nth < 1 ? now : taken.at(-nth)?.at
      return at === undefined ? 0 : Math.max(0, at + length - now)
    })
    const tripped = waits.findIndex((wait) => wait > 0)
    const window = WINDOW_NAMES[tripped]
    if (window !== undefined) {
      return { reserved: false, window, retryAfterSeconds: toWaitSeconds(Math.max(...waits)) }
    }
    add(item, now)
    leases.set(leaseKey(item), lease)
    return { reserved: true }
  }

  const counters: CountersShape = {
    takeToken: (keyId, requestsPerSecond) =>
      step((now) => {
        const limit = atLeastOne(requestsPerSecond)
        const each = FULL_BUCKET_US / limit
        const kept = buckets.get(keyId) ?? { at: now, debt: 0 }
        const owed = Math.min(FULL_BUCKET_US, Math.max(0, kept.debt - Math.max(0, now - kept.at) * 1000))
        const allowed = owed + each <= FULL_BUCKET_US + ROUNDING_US
        const debt = allowed ? owed + each : owed
        if (allowed) buckets.set(keyId, { at: now, debt })
        return {
          allowed,
          limit,
          remaining: Math.max(0, Math.floor((FULL_BUCKET_US + ROUNDING_US - debt) / each)),
          resetSeconds: toTenths(Math.ceil(debt - ROUNDING_US)),
          retryAfterSeconds: allowed ? 0 : toWaitSeconds((debt + each - FULL_BUCKET_US) / 1000),
        }
      }),

    failedLogins: {
      check: (address) =>
        step((now) => {
          const oldest = failures.get(gateAddress(address))?.[GATE_REMEMBERS - 1]
          const wait = oldest === undefined ? 0 : oldest + GATE_WINDOW_MS - now
          return wait > 0
            ? { allowed: false, retryAfterSeconds: toWaitSeconds(Math.min(GATE_WINDOW_MS, wait)) }
            : { allowed: true }
        }),
      record: (address) =>
        step((now) => {
          const name = gateAddress(address)
          failures.set(name, [now, ...(failures.get(name) ?? [])].slice(0, GATE_REMEMBERS))
        }),
    },

    reserveFlood: (items) =>
      step((now) => {
        if (items.length > 0 && generation !== 'ready') {
          return new CountersUnavailable({ reason: 'empty', detail: 'generation' })
        }
        for (const { message, until } of leases.values()) {
          if (until <= now) drop(message)
        }
        return items.map((item) => reserve(item, now))
      }),
    releaseFlood: (items) => step(() => items.forEach(drop)),
    confirmFlood: (items) =>
      Effect.sync(() => {
        unwritten = [...unwritten, ...items]
        if (state === 'up') writeKept()
      }),

    daily: {
      stopped: (day, limit) => step(() => (days.get(day) ?? 0) >= limit),
      count: (day, messages) =>
        step(() => {
          const total = (days.get(day) ?? 0) + messages
          days.set(day, total)
          return total
        }),
      raise: (day, total) =>
        step(() => {
          days.set(day, Math.max(days.get(day) ?? 0, total))
        }),
    },

    ping: step(() => undefined),

    generation: {
      state: step(() => (typeof generation === 'string' ? generation : 'rebuilding')),
      rebuild: (acceptances) =>
        Effect.flatMap(
          step(() => {
            if (generation === 'ready') return 'ready' as const
            if (generation !== 'empty') return 'elsewhere' as const
            generation = { token: {} }
            return generation
          }),
          (mine) => {
            if (typeof mine === 'string') return Effect.succeed(mine)
            return acceptances.pipe(
              Stream.runForEachArray((items) => step(() => record(items))),
              Effect.andThen(
                step(() => {
                  if (generation !== mine) return 'elsewhere' as const
                  generation = 'ready'
                  return 'rebuilt' as const
                }),
              ),
              Effect.ensuring(
                Effect.sync(() => {
                  if (generation === mine) generation = 'empty'
                }),
              ),
            )
          },
        ),
    },
  }

  const control = MemoryCounters.of({
    set: (next) =>
      Effect.sync(() => {
        state = next
        if (state === 'up') writeKept()
      }),
    advance: (ms) =>
      Effect.sync(() => {
        advanced += ms
      }),
    now,
    empty: Effect.sync(() => {
      generation = 'empty'
      for (const lost of [buckets, failures, places, leases, days]) lost.clear()
    }),
  })

  return Context.make(Counters, counters).pipe(Context.add(MemoryCounters, control))
}

/** Counters of one's own. */
export const memoryCounters = (options: MemoryCountersOptions = {}) =>
  Layer.effectContext(Effect.sync(() => make(options)))
