/** The hours that are compared with the same hours of earlier weeks. Pure. */

const HOUR_MS = 3_600_000
const WEEK_MS = 7 * 24 * HOUR_MS

/** Two weeks with a fault at the same hour do not move the median of five. */
export const BASELINE_WEEKS = 5

/** With fewer weeks, a median and its deviation say little. */
export const MIN_BASELINE_WEEKS = 3

/** The start of the hour (UTC) of a time, in milliseconds since the epoch. */
export const hourOf = (at: number): number => Math.floor(at / HOUR_MS) * HOUR_MS

/** The hours that end with the one of `until`, the newest first. */
export const hoursBack = (until: number, count: number): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, i) => hourOf(until) - i * HOUR_MS)

/** The same hour of the earlier weeks. */
export const earlierWeeks = (hour: number): ReadonlyArray<number> =>
  Array.from({ length: BASELINE_WEEKS }, (_, i) => hour - (i + 1) * WEEK_MS)

/** What must be read to judge the hours that end with the one of `until`: them, and the same ones of the earlier weeks. */
export const periodsToRead = (
  until: number,
  hours: number,
): ReadonlyArray<{ readonly from: number; readonly to: number }> =>
  [hourOf(until), ...earlierWeeks(hourOf(until))].map((last) => ({
    from: last - (hours - 1) * HOUR_MS,
    to: last + HOUR_MS,
  }))
