/**
 * The port of the counters: request rate, failed logins, flood windows, the hub's daily count. Adapters lie beside it;
 * `port.contract.ts` is the suite that each of them passes.
 *
 * One clock: every window is measured by the clock of the store, not by that of the process that asks. Processes differ
 * by up to a second (that is when they stop being ready), and two of them that disagree about *now* would let a number
 * be written to twice within its pause, or refuse a key that waited as long as it was told. So no call but
 * `confirmFlood`, which reports the past, brings a time along.
 */
import { Context, Data, type Effect, type Stream } from 'effect'

/**
 * The counters cannot say. What that means is the caller's to decide: an `otp` passes, a `service` message is refused
 * without `retry_after`, rate headers are left out, the gate and the daily limit stay open. Retryable. After `timeout`
 * the outcome is unknown; a reservation that nobody claims lapses by itself.
 */
export class CountersUnavailable extends Data.TaggedError('CountersUnavailable')<{
  /**
   * `unreachable`: no connection. `timeout`: no answer within the deadline, now or a moment ago. `busy`: so many calls
   * are under way that this one would not be answered in time. `empty`: the store has lost its flood windows and they
   * are not rebuilt yet. `failed`: the store answered with an error.
   */
  readonly reason: 'unreachable' | 'timeout' | 'busy' | 'empty' | 'failed'
  /** A code of the store or the driver; never data. */
  readonly detail: string
}> {}

/** The answer of the token bucket, ready for the three headers (specification, Limits: Request rate). */
export interface RateVerdict {
  readonly allowed: boolean
  /** Requests per second. */
  readonly limit: number
  /** Whole requests that would pass right now, after this one. */
  readonly remaining: number
  /** Until the bucket is full again; rounded up to one decimal. */
  readonly resetSeconds: number
  /** Whole seconds, at least 1, when refused; 0 when allowed. */
  readonly retryAfterSeconds: number
}

export type GateVerdict =
  | { readonly allowed: true }
  /** Whole seconds, 1 to 60. */
  | { readonly allowed: false; readonly retryAfterSeconds: number }

/** The windows in force (specification, Limits: Per-recipient anti-flood). */
export interface FloodWindows {
  /** The least time between two messages to one number; 0 is none, and more than a day counts as a day. */
  readonly pauseSeconds: number
  /** Messages in any sliding hour; `null` is no limit. */
  readonly perHour: number | null
  /** Messages in any sliding day; `null` is no limit. */
  readonly perDay: number | null
}

/** A message as the flood windows know it. */
export interface FloodReservation {
  /** Both forms of an id will do, as long as it is always the same one. */
  readonly account: string
  readonly mode: 'live' | 'test'
  /** The recipient's hash, 64 hexadecimal characters; never the number. */
  readonly recipient: string
  readonly reservationId: string
}

export interface FloodRequest extends FloodReservation {
  readonly windows: FloodWindows
}

/** A message that was accepted. */
export interface FloodAcceptance extends FloodReservation {
  /** `created_at`, milliseconds since the epoch. */
  readonly at: number
}

export type FloodVerdict =
  | { readonly reserved: true }
  | {
      readonly reserved: false
      /** The first that trips, in the order pause, hour, day. */
      readonly window: 'pause' | 'hour' | 'day'
      /** Whole seconds until a send would pass all windows, if none comes between; at least 1. */
      readonly retryAfterSeconds: number
    }

/** `elsewhere`: another process is at it. */
export type RebuildOutcome = 'rebuilt' | 'ready' | 'elsewhere'

/** How long a reservation stands that is neither recorded nor released: the hard deadline of a request. */
export const RESERVATION_LEASE_MS = 20_000

export interface CountersShape {
  /**
   * Takes one request from the key's bucket, which holds `requestsPerSecond` tokens and gains as many a second.
   * In any window of *w* seconds at most `requestsPerSecond` × (*w* + 1) requests pass. Refused requests cost nothing.
   */
  readonly takeToken: (
    keyId: string,
    requestsPerSecond: number,
  ) => Effect.Effect<RateVerdict, CountersUnavailable>

  /**
   * The failed-login gate (specification, Access and keys). More than 20 failures within a sliding minute shut it; gated
   * attempts are not to be recorded. `address` is the client's as text; IPv6 counts by /64, an IPv4-mapped address as IPv4.
   * Attempts that are under way together are all checked before any of them has failed, so that a client gets past the
   * gate with as many attempts as it has requests in flight; the minute that follows is theirs all the same.
   */
  readonly failedLogins: {
    readonly check: (address: string) => Effect.Effect<GateVerdict, CountersUnavailable>
    readonly record: (address: string) => Effect.Effect<void, CountersUnavailable>
  }

  /**
   * Takes a place in the windows for each message that fits, in the order given: messages to one number in one call
   * see each other. Taking is idempotent by message id: a message that has its place is `taken` again, at its first
   * time. A place is a reservation: to be made final with `confirmFlood` once the message is accepted, or given back with
   * `releaseFlood`. With neither it lapses after `RESERVATION_LEASE_MS`, so that a crash or a call that happened and
   * timed out leaves no window spent for a message that was never accepted.
   */
  readonly reserveFlood: (
    items: ReadonlyArray<FloodRequest>,
  ) => Effect.Effect<ReadonlyArray<FloodVerdict>, CountersUnavailable>

  /** Gives places back, reserved or final. Idempotent; unknown messages are nothing. When it fails, reservations lapse. */
  readonly releaseFlood: (items: ReadonlyArray<FloodReservation>) => Effect.Effect<void, CountersUnavailable>

  /**
   * Makes places final, at the time they were reserved; a message without a place (an `otp` that passed while the
   * counters were unavailable) gets one at `at`, whatever the windows say. Idempotent. Never fails: what cannot be
   * written now is kept, within a bound, and written as soon as the store answers.
   */
  readonly confirmFlood: (items: ReadonlyArray<FloodAcceptance>) => Effect.Effect<void>

  /**
   * The hub's daily count, over all accounts and modes. `day` is a UTC date, `2026-11-21` (`utcDay`). The count itself is the stop flag:
   * once it has reached the limit, every later send sees it until the day is over, or until the limit is raised.
   *
   * A request asks `stopped` once, before anything is created, and `count`s what it created afterwards. So nothing is
   * counted that was refused, a crash leaves no count behind, and a batch is never cut in half. The price: what has
   * passed the check but is not counted yet can exceed the limit, by at most one flush of each process. For a brake that
   * protects the whole hub that is exact enough.
   */
  readonly daily: {
    readonly stopped: (day: string, limit: number) => Effect.Effect<boolean, CountersUnavailable>
    /** Adds `messages` and answers the new total. Not idempotent: do not retry. */
    readonly count: (day: string, messages: number) => Effect.Effect<number, CountersUnavailable>
    /** Raises the total to what the ledger counted, if it is lower. Idempotent. */
    readonly raise: (day: string, total: number) => Effect.Effect<void, CountersUnavailable>
  }

  /** Succeeds while the store answers, whatever it knows. One small call. */
  readonly ping: Effect.Effect<void, CountersUnavailable>

  /**
   * Whether the flood windows can be trusted. A store that is new, was restarted without its data or was emptied knows of no message
   * and would let everything pass: until it has been rebuilt, `reserveFlood` fails with `empty`.
   */
  readonly generation: {
    readonly state: Effect.Effect<'ready' | 'rebuilding' | 'empty', CountersUnavailable>
    /**
     * Records the acceptances of the last day (those that spend windows, in any order) and then says `ready`. One
     * process does it at a time; where nothing is to be done the stream is not run. A store that is emptied meanwhile
     * stays `empty`. The daily count is lost with the windows: `daily.raise` restores it.
     */
    readonly rebuild: <E, R>(
      acceptances: Stream.Stream<FloodAcceptance, E, R>,
    ) => Effect.Effect<RebuildOutcome, CountersUnavailable | E, R>
  }
}

/** The counters. Layers: `Counters` over Redis by `countersLayer`, over memory by `memoryCounters`. */
export class Counters extends Context.Service<Counters, CountersShape>()('@hub/counters/Counters') {}
