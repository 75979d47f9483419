/** The retry schedule of a webhook batch. Source: DEL-16, DEL-17. */

const MINUTE = 60_000

/** Intervals double from one minute up to one hour. */
const LONGEST_INTERVAL_MINUTES = 60
/** Spreads the retries to a receiver that was down. */
const JITTER = 0.1

/** Milliseconds from queueing, including the time while the subscription is disabled. */
export const RETRY_WINDOW_MS = 24 * 60 * MINUTE

/**
 * Returns the wait in milliseconds after failed attempt number `attempt` (from 1): 1, 2, 4, 8, 16,
 * 32, 60, 60 … minutes, ±10 %. `random` is in [0, 1).
 */
export const retryInterval = (attempt: number, random: number): number => {
  // 2^6 already exceeds an hour. The limit prevents an overflow of the power.
  const minutes = Math.min(LONGEST_INTERVAL_MINUTES, 2 ** Math.min(attempt - 1, 6))
  return Math.round(minutes * MINUTE * (1 - JITTER + 2 * JITTER * random))
}

/** Returns true if the retry window of a batch queued at `queuedAt` has ended. */
export const retryWindowExpired = (queuedAt: number, at: number, windowMs = RETRY_WINDOW_MS): boolean =>
  at >= queuedAt + windowMs

/**
 * Returns the time of the next attempt in milliseconds since the epoch, or `null` if it would be
 * outside the window. Then the batch stays pending until the window ends: a release may still send
 * it.
 */
export const nextAttemptAt = (failure: {
  /** The number of attempts, including this one. */
  readonly attempt: number
  readonly queuedAt: number
  readonly failedAt: number
  /** In [0, 1). */
  readonly random: number
}): number | null => {
  const next = failure.failedAt + retryInterval(failure.attempt, failure.random)
  return retryWindowExpired(failure.queuedAt, next) ? null : next
}
