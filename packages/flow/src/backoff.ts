/** Pauses that double after each failure in a row. */
import { Schedule } from 'effect'

export interface Backoff {
  /** The pause after the first failure, in milliseconds. */
  readonly firstMs: number
  readonly longestMs: number
}

/** For an append that a message waits for: the pauses only protect a broker that starts. */
export const SHORT: Backoff = { firstMs: 50, longestMs: 1000 }

/**
 * For work that clients wait for: a failover is hardly noticed, and a recovery is noticed within the time in
 * which clients are promised their events.
 */
export const QUICK: Backoff = { firstMs: 100, longestMs: 2000 }

/** For a server that may need minutes to start. */
export const PATIENT: Backoff = { firstMs: 200, longestMs: 5000 }

/** The pause after this number of failures in a row (from 1), in milliseconds. */
export const backoffMs = ({ firstMs, longestMs }: Backoff, failures: number): number =>
  // 2 ** 32 times the first pause is longer than any longest one.
  Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 32))

/** The same pauses without end, each 20 % shorter to 20 % longer, so that processes do not repeat at once. */
export const backoffSchedule = ({ firstMs, longestMs }: Backoff) =>
  Schedule.jittered(Schedule.min([Schedule.exponential(firstMs), Schedule.spaced(longestMs)]))
