/** Timestamps of the API. Inside the hub, a moment is a number of milliseconds since the epoch. */

/** The last result. Many records share one moment, and formatting is slow. */
let last = { ms: 0, text: '1970-01-01T00:00:00.000Z' }

/** Formats a moment. Source: GEN-5. */
export const toTimestamp = (ms: number): string => {
  if (ms !== last.ms) last = { ms, text: new Date(ms).toISOString() }
  return last.text
}

/** PostgreSQL has no year 0. */
const TIMESTAMP = /^(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/

/** Returns `null` for any other form, and for dates like 30 February. */
export const fromTimestamp = (text: string): number | null => {
  if (!TIMESTAMP.test(text)) return null
  const ms = Date.parse(text)
  return Number.isNaN(ms) || toTimestamp(ms) !== text ? null : ms
}
