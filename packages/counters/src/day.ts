/** Days as the hub's daily limit counts them: UTC. */

const DAY_MS = 86_400_000

/** A client that comes back sooner than this finds the same answer: clocks differ, and day's end is no rush hour. */
const LEAST_WAIT_SECONDS = 60

/** The UTC date of a moment (milliseconds since the epoch), `2026-11-21`. */
export const utcDay = (nowMs: number): string => new Date(nowMs).toISOString().slice(0, 10)

/** `retry_after` of `hub_daily_limit_reached`: whole seconds to midnight UTC, at least a minute. */
export const secondsToNextDay = (nowMs: number): number =>
  Math.max(LEAST_WAIT_SECONDS, Math.ceil((DAY_MS - (((nowMs % DAY_MS) + DAY_MS) % DAY_MS)) / 1000))
