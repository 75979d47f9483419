/** The days of the hub's daily limit, in UTC. */

const DAY_MS = 86_400_000

/** The clocks of client and hub differ, so an earlier retry could get the same answer. */
const LEAST_WAIT_SECONDS = 60

/** The UTC date of a time (milliseconds since the epoch), such as `2026-11-21`. */
export const utcDay = (nowMs: number): string => new Date(nowMs).toISOString().slice(0, 10)

/** `retry_after` of `hub_daily_limit_reached`: whole seconds to midnight UTC, at least a minute. */
export const secondsToNextDay = (nowMs: number): number =>
  Math.max(LEAST_WAIT_SECONDS, Math.ceil((DAY_MS - (((nowMs % DAY_MS) + DAY_MS) % DAY_MS)) / 1000))
