/**
 * The port of the counters: request rate, failed logins, flood windows, and the hub's daily count.
 * The adapters are in this folder, and `port.contract.ts` is the contract suite that each of them
 * passes.
 *
 * The store's clock measures every window, not the clock of the calling process. The clocks of two
 * processes differ by up to a second; beyond that a process is not ready. With two clocks, a number
 * could get two messages within its pause, or the hub could refuse a key that has waited for its
 * `retry_after`. So only `confirmFlood`, which records the past, has a time as argument.
 */
import { Context, Data, type Effect, type Stream } from 'effect'

/**
 * Why the counters have no answer. `unreachable`: no connection. `timeout`: no answer within the
 * deadline, for this call or a recent one: the counters are slow. `busy`: with the calls in progress,
 * this one would time out. `empty`: the store has lost its flood windows, and they are not rebuilt yet.
 * `failed`: the store answered with an error.
 */
export const UNAVAILABLE_REASONS = ['unreachable', 'timeout', 'busy', 'empty', 'failed'] as const
export type UnavailableReason = (typeof UNAVAILABLE_REASONS)[number]

/**
 * The counters have no answer. The caller decides what follows: an `otp` passes, a `service`
 * message is refused, rate headers are left out, and the failed-login gate and the daily limit stay
 * open. Retryable. After `timeout` the result is unknown; a reservation
 * that nobody confirms expires.
 */
export class CountersUnavailable extends Data.TaggedError('CountersUnavailable')<{
  readonly reason: UnavailableReason
  /** A code of the store or the driver, never data. */
  readonly detail: string
}> {
  override readonly message = `${this.reason}: ${this.detail}`
}

/** The answer of the token bucket, for three headers (LIM-2). */
export interface RateVerdict {
  readonly allowed: boolean
  /** Requests per second. */
  readonly limit: number
  /** Whole requests that would pass right after this one. */
  readonly remaining: number
  /** Time until the bucket is full, rounded up to one decimal. */
  readonly resetSeconds: number
  /** Whole seconds, at least 1, if refused; 0 if allowed. */
  readonly retryAfterSeconds: number
}

export type GateVerdict =
  | { readonly allowed: true }
  /** Whole seconds, 1 to 60. */
  | { readonly allowed: false; readonly retryAfterSeconds: number }

/** How a login attempt ended. `undone`: its key was valid, or nobody knows whether it was. */
export type LoginResult = 'failed' | 'undone'

export type AttemptVerdict =
  | { readonly kind: 'begun' }
  /** The gate is closed. Whole seconds, 1 to 60. */
  | { readonly kind: 'closed'; readonly retryAfterSeconds: number }
  /** Attempts in progress could close the gate. Repeat when one of them has ended. */
  | { readonly kind: 'waiting' }

/** An attempt that never ends is undone after this time: longer than a key check, which has 3 s. */
export const ATTEMPT_LEASE_MS = 5000

/** The flood windows of an account (LIM-6). */
export interface FloodWindows {
  /**
   * The shortest time between two messages to one number; 0: none. More than a day counts as a day.
   */
  readonly pauseSeconds: number
  /** Messages in any sliding hour; `null`: no limit. */
  readonly perHour: number | null
  /** Messages in any sliding day; `null`: no limit. */
  readonly perDay: number | null
}

/** A reservation in the flood windows of a recipient. */
export interface FloodReservation {
  /** The id of the account in either form, but always in the same one. */
  readonly account: string
  readonly mode: 'live' | 'test'
  /** The recipient hash, 64 hexadecimal digits; never the number. */
  readonly recipient: string
  /** Identifies the reservation: two sends with the same id use one reservation. */
  readonly reservationId: string
}

export interface FloodRequest extends FloodReservation {
  readonly windows: FloodWindows
}

/** The reservation of a message that was accepted. */
export interface FloodAcceptance extends FloodReservation {
  /** `created_at`, milliseconds since the epoch. */
  readonly at: number
}

export type FloodVerdict =
  | { readonly reserved: true }
  | {
      readonly reserved: false
      /** The first exceeded window in the order pause, hour, day. */
      readonly window: 'pause' | 'hour' | 'day'
      /** Whole seconds, at least 1, until that window allows a send. Another one may be exceeded longer. */
      readonly retryAfterSeconds: number
    }

/** `elsewhere`: another process is rebuilding. */
export type RebuildOutcome = 'rebuilt' | 'ready' | 'elsewhere'

/** An unconfirmed reservation expires after this time: the hard deadline of a request. */
export const RESERVATION_LEASE_MS = 20_000

export interface CountersShape {
  /**
   * Takes one token from the bucket of a key. The bucket holds `requestsPerSecond` tokens and gains
   * as many per second. So in any window of *w* seconds at most `requestsPerSecond` × (*w* + 1)
   * requests pass. A refused request takes no token.
   */
  readonly takeToken: (
    keyId: string,
    requestsPerSecond: number,
  ) => Effect.Effect<RateVerdict, CountersUnavailable>

  /**
   * The failed-login gate (AUTH-8). It closes after more than 20 failures
   * within a sliding minute. `address`: the client's address as text. IPv6 addresses count by /64,
   * IPv4-mapped ones as IPv4.
   *
   * An attempt is counted before its key is checked. So concurrent attempts never exceed the limit,
   * in all processes together: `begin` admits as many as may still fail. `end` removes the attempt
   * and, if it failed, records a failure. Attempts that `begin` did not admit are not recorded.
   */
  readonly failedLogins: {
    /** Whether the recorded failures leave the gate open. */
    readonly check: (address: string) => Effect.Effect<GateVerdict, CountersUnavailable>
    /** `attempt`: a unique id. */
    readonly begin: (address: string, attempt: string) => Effect.Effect<AttemptVerdict, CountersUnavailable>
    readonly end: (
      address: string,
      attempt: string,
      result: LoginResult,
    ) => Effect.Effect<void, CountersUnavailable>
  }

  /**
   * Makes a reservation for each request that all its windows allow, in order: requests for one
   * recipient in one call count each other. Idempotent by reservation id: a reservation never counts
   * against itself. A confirmed one is `reserved` again and keeps its time. An unconfirmed one may be of
   * an attempt that has failed, so it is made anew: otherwise its repeat would pass although another
   * message was accepted meanwhile. Confirm a reservation with `confirmFlood` when the
   * message is accepted, or release it with `releaseFlood`. Otherwise it expires after
   * `RESERVATION_LEASE_MS`. So neither a crash nor a call that timed out counts a message that was
   * never accepted.
   */
  readonly reserveFlood: (
    requests: ReadonlyArray<FloodRequest>,
  ) => Effect.Effect<ReadonlyArray<FloodVerdict>, CountersUnavailable>

  /** Releases reservations, confirmed or not. Idempotent; unknown ones are ignored. */
  readonly releaseFlood: (
    reservations: ReadonlyArray<FloodReservation>,
  ) => Effect.Effect<void, CountersUnavailable>

  /**
   * Confirms reservations, which keep the time of their reservation. A message without a
   * reservation (an `otp` that passed while the counters were unavailable) is counted at `at`,
   * whatever the windows allow. Idempotent. Never fails: what cannot be written now is buffered,
   * within a bound, and written as soon as the store answers.
   */
  readonly confirmFlood: (acceptances: ReadonlyArray<FloodAcceptance>) => Effect.Effect<void>

  /**
   * The hub's daily count, over all accounts and modes. `day`: a UTC date such as `2026-11-21`
   * (`utcDay`). The count is also the stop flag: after it has reached the limit, every send is
   * refused until the day ends or the limit is raised.
   *
   * A request calls `stopped` once, before anything is created, and `count` afterwards with what it
   * created. So refused sends are not counted, a crash leaves no wrong count, and a batch is
   * accepted as a whole or not at all. In exchange the hub can exceed the limit by what is checked
   * and not counted yet: at most one acceptance batch per process. A limit that protects the hub as
   * a whole need not be more exact.
   */
  readonly daily: {
    readonly stopped: (day: string, limit: number) => Effect.Effect<boolean, CountersUnavailable>
    /** Adds `messages` and returns the new total. Not idempotent: do not retry. */
    readonly count: (day: string, messages: number) => Effect.Effect<number, CountersUnavailable>
    /** Raises the total to the ledger's total if it is lower. Idempotent. */
    readonly raise: (day: string, total: number) => Effect.Effect<void, CountersUnavailable>
  }

  /** Succeeds if the store answers, whatever it contains. One small call. */
  readonly ping: Effect.Effect<void, CountersUnavailable>

  /**
   * Whether the flood windows are complete. A store that is new, was restarted without its data or
   * was emptied contains no message and would allow everything. So `reserveFlood` fails with
   * `empty` until the windows are rebuilt.
   */
  readonly generation: {
    readonly state: Effect.Effect<'ready' | 'rebuilding' | 'empty', CountersUnavailable>
    /**
     * Confirms the acceptances of the last day that flood windows count, in any order, and then
     * makes the state `ready`. One process rebuilds at a time. The stream is not run if there is
     * nothing to do. A store that is emptied meanwhile stays `empty`. The daily count is lost with
     * the windows: `daily.raise` restores it.
     */
    readonly rebuild: <E, R>(
      acceptances: Stream.Stream<FloodAcceptance, E, R>,
    ) => Effect.Effect<RebuildOutcome, CountersUnavailable | E, R>
  }
}

/** The counters: `countersLayer` in Redis, `memoryCounters` in memory. */
export class Counters extends Context.Service<Counters, CountersShape>()('@hub/counters/Counters') {}
