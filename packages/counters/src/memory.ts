/**
 * The counters in memory: the test double of the port, which passes the same contract suite. For
 * one process. Its time is Effect's clock, which tests can move, plus what `advance` has added.
 */
import { Clock, Context, Effect, Layer, Stream } from 'effect'
import { gateAddress } from './address.ts'
import {
  ATTEMPT_LEASE_MS,
  type AttemptVerdict,
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
  tokenVerdict,
  toWaitSeconds,
  WINDOW_NAMES,
} from './rules.ts'

/** How the store behaves. `hanging`: it never answers, which fails at once with `timeout`. */
export type CountersState = 'up' | 'refusing' | 'hanging'

/** How a test controls the counters. */
export class MemoryCounters extends Context.Service<
  MemoryCounters,
  {
    readonly set: (state: CountersState) => Effect.Effect<void>
    /** Advances the time of the store. */
    readonly advance: (ms: number) => Effect.Effect<void>
    /** The time of the store, milliseconds since the epoch. */
    readonly now: Effect.Effect<number>
    /** Deletes all data, like a restart without data. */
    readonly empty: Effect.Effect<void>
  }
>()('@hub/counters/MemoryCounters') {}

interface Counted {
  readonly id: string
  readonly at: number
}

const recipientKey = ({ account, mode, recipient }: FloodReservation) => `${account}:${mode}:${recipient}`
const leaseKey = (reservation: FloodReservation) =>
  `${reservation.reservationId} ${recipientKey(reservation)}`

export interface MemoryCountersOptions {
  /** Default `ready`; `empty` needs a rebuild first. */
  readonly generation?: 'ready' | 'empty'
  /** Replaces Effect's clock; milliseconds since the epoch. */
  readonly now?: () => number
}

const make = (options: MemoryCountersOptions) => {
  let state: CountersState = 'up'
  let advanced = 0
  let generation: 'ready' | 'empty' | { readonly token: object } = options.generation ?? 'ready'
  const buckets = new Map<string, { readonly at: number; readonly debt: number }>()
  const failures = new Map<string, ReadonlyArray<number>>()
  const attempts = new Map<string, Map<string, number>>()
  /** By recipient, oldest first. */
  const counted = new Map<string, ReadonlyArray<Counted>>()
  const leases = new Map<string, { readonly reservation: FloodReservation; readonly until: number }>()
  const days = new Map<string, number>()
  let buffered: ReadonlyArray<FloodAcceptance> = []

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
      writeBuffered()
      const answer = body(time)
      return answer instanceof CountersUnavailable ? Effect.fail(answer) : Effect.succeed(answer)
    })

  const remove = (reservation: FloodReservation) => {
    const key = recipientKey(reservation)
    counted.set(
      key,
      (counted.get(key) ?? []).filter(({ id }) => id !== reservation.reservationId),
    )
    leases.delete(leaseKey(reservation))
  }

  const add = (reservation: FloodReservation, at: number) => {
    const key = recipientKey(reservation)
    counted.set(
      key,
      [...(counted.get(key) ?? []), { id: reservation.reservationId, at }].toSorted((a, b) => a.at - b.at),
    )
  }

  const confirm = (items: ReadonlyArray<FloodAcceptance>) => {
    for (const item of items) {
      const known = (counted.get(recipientKey(item)) ?? []).some(({ id }) => id === item.reservationId)
      if (!leases.delete(leaseKey(item)) && !known) add(item, item.at)
    }
  }

  const writeBuffered = () => {
    confirm(buffered)
    buffered = []
  }

  const reserve = (item: FloodRequest, now: number): FloodVerdict => {
    // A message of an attempt that has failed, or is in progress: it counts from now on.
    if (leases.has(leaseKey(item))) remove(item)
    const earlier = counted.get(recipientKey(item)) ?? []
    if (earlier.some(({ id }) => id === item.reservationId)) return { reserved: true }
    const waits = [
      { nth: 1, length: Math.min(DAY_MS, item.windows.pauseSeconds * 1000) },
      { nth: item.windows.perHour, length: HOUR_MS },
      { nth: item.windows.perDay, length: DAY_MS },
    ].map(({ nth, length }) => {
      if (nth === null || length <= 0) return 0
      const at = nth < 1 ? now : earlier.at(-nth)?.at
      return at === undefined ? 0 : Math.max(0, at + length - now)
    })
    const exceeded = waits.findIndex((wait) => wait > 0)
    const window = WINDOW_NAMES[exceeded]
    if (window !== undefined) {
      return { reserved: false, window, retryAfterSeconds: toWaitSeconds(waits[exceeded] ?? 0) }
    }
    add(item, now)
    leases.set(leaseKey(item), { reservation: item, until: now + RESERVATION_LEASE_MS })
    return { reserved: true }
  }

  const counters: CountersShape = {
    takeToken: (keyId, requestsPerSecond) =>
      step((now) => {
        const limit = atLeastOne(requestsPerSecond)
        const each = FULL_BUCKET_US / limit
        const bucket = buckets.get(keyId) ?? { at: now, debt: 0 }
        const owed = Math.min(FULL_BUCKET_US, Math.max(0, bucket.debt - Math.max(0, now - bucket.at) * 1000))
        const allowed = owed + each <= FULL_BUCKET_US + ROUNDING_US
        if (allowed) buckets.set(keyId, { at: now, debt: owed + each })
        return tokenVerdict(limit, allowed ? 1 : 0, owed, 0)
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
      begin: (address, attempt) =>
        step((now): AttemptVerdict => {
          const name = gateAddress(address)
          const recent = (failures.get(name) ?? []).filter((at) => at > now - GATE_WINDOW_MS)
          const oldest = recent[GATE_REMEMBERS - 1]
          if (oldest !== undefined) {
            const wait = Math.min(GATE_WINDOW_MS, oldest + GATE_WINDOW_MS - now)
            return { kind: 'closed', retryAfterSeconds: toWaitSeconds(wait) }
          }
          const begun = [...(attempts.get(name) ?? [])].filter(([, until]) => until > now)
          if (recent.length + begun.length >= GATE_REMEMBERS) return { kind: 'waiting' }
          attempts.set(name, new Map([...begun, [attempt, now + ATTEMPT_LEASE_MS]]))
          return { kind: 'begun' }
        }),
      end: (address, attempt, result) =>
        step((now) => {
          const name = gateAddress(address)
          attempts.get(name)?.delete(attempt)
          if (result === 'undone') return
          failures.set(name, [now, ...(failures.get(name) ?? [])].slice(0, GATE_REMEMBERS))
        }),
    },

    reserveFlood: (items) =>
      step((now) => {
        if (items.length > 0 && generation !== 'ready') {
          return new CountersUnavailable({ reason: 'empty', detail: 'generation' })
        }
        for (const { reservation, until } of leases.values()) {
          if (until <= now) remove(reservation)
        }
        return items.map((item) => reserve(item, now))
      }),
    releaseFlood: (items) => step(() => items.forEach(remove)),
    confirmFlood: (items) =>
      Effect.sync(() => {
        buffered = [...buffered, ...items]
        if (state === 'up') writeBuffered()
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
          (own) => {
            if (typeof own === 'string') return Effect.succeed(own)
            return acceptances.pipe(
              Stream.runForEachArray((items) => step(() => confirm(items))),
              Effect.andThen(
                step(() => {
                  if (generation !== own) return 'elsewhere' as const
                  generation = 'ready'
                  return 'rebuilt' as const
                }),
              ),
              Effect.ensuring(
                Effect.sync(() => {
                  if (generation === own) generation = 'empty'
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
        if (state === 'up') writeBuffered()
      }),
    advance: (ms) =>
      Effect.sync(() => {
        advanced += ms
      }),
    now,
    empty: Effect.sync(() => {
      generation = 'empty'
      for (const map of [buckets, failures, attempts, counted, leases, days]) map.clear()
    }),
  })

  return Context.make(Counters, counters).pipe(Context.add(MemoryCounters, control))
}

/** New counters for each use of the layer. */
export const memoryCounters = (options: MemoryCountersOptions = {}) =>
  Layer.effectContext(Effect.sync(() => make(options)))
