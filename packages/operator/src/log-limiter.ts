/** Limits repeated log lines, for example while an operator is down. */

/** The shortest time between two lines of one kind, ms. */
export const LOG_INTERVAL_MS = 10_000
/** The most kinds that are limited separately, so that ever new kinds do not fill memory or log. */
export const MAX_KINDS = 50

/**
 * Returns a function that decides whether a line of a kind may be logged now: the number of lines
 * suppressed since the last one, or `null` if this line is suppressed too.
 */
export const makeLogLimiter = (now: () => number): ((kind: string) => number | null) => {
  const last = new Map<string, { at: number; suppressed: number }>()
  return (kind) => {
    const key = last.has(kind) || last.size < MAX_KINDS ? kind : 'others'
    const at = now()
    const before = last.get(key)
    if (before !== undefined && at - before.at < LOG_INTERVAL_MS) {
      before.suppressed++
      return null
    }
    last.set(key, { at, suppressed: 0 })
    return before?.suppressed ?? 0
  }
}
