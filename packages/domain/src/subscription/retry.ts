/** When a batch of events is tried again. Source: specification, Delivery of events, 6; contract, Webhook subscription. */

const MINUTE = 60_000

/** From one minute, doubling, to one hour. */
const LONGEST_INTERVAL_MINUTES = 60
/** So that the batches of a receiver that went down do not all come back in the same second. */
const JITTER = 0.1

/** From the moment the batch was first queued, milliseconds. Waiting for a disabled subscription counts. */
export const RETRY_WINDOW_MS = 24 * 60 * MINUTE

/**
 * The wait after the `attempt`-th failed attempt (1 is the first), in milliseconds: 1, 2, 4, 8, 16, 32, 60, 60 … minutes, ±10 %.
 * `random` is in [0, 1).
 */
export const retryInterval = (attempt: number, random: number): number => {
  // 2^6 exceeds the hour already; without the bound the power would overflow some day.
  const minutes = Math.min(LONGEST_INTERVAL_MINUTES, 2 ** Math.min(attempt - 1, 6))
  return Math.round(minutes * MINUTE * (1 - JITTER + 2 * JITTER * random))
}

/** True once a batch queued at `queuedAt` is no longer delivered. */
export const retryWindowExpired = (queuedAt: number, at: number): boolean => at >= queuedAt + RETRY_WINDOW_MS

/**
 * When to try again after a failure, milliseconds since the epoch, or `null` when that would be outside the window: the
 * batch has failed (`retry_window_expired`).
 */
export const nextAttemptAt = (failure: {
  /** How many attempts there have been, this one included. */
  readonly attempt: number
  readonly queuedAt: number
  readonly failedAt: number
  /** In [0, 1). */
  readonly random: number
}): number | null => {
  const next = failure.failedAt + retryInterval(failure.attempt, failure.random)
  return retryWindowExpired(failure.queuedAt, next) ? null : next
}
