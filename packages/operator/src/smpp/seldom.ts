/** Lines about one thing in the log: a centre that is away for a day says so a few thousand times, not millions. */

/** Of one kind, a line in so long, ms. */
export const EVERY_MS = 10_000
/** Kinds are told apart up to here; a centre that invents a status for each answer does not fill the memory or the log. */
export const MAX_KINDS = 50

/** Asked before a line of a kind: how many were left out since the last one, or `null` when this one is to be left out too. */
export const makeSeldom = (now: () => number): ((kind: string) => number | null) => {
  const last = new Map<string, { at: number; suppressed: number }>()
  return (kind) => {
    const known = last.has(kind) || last.size < MAX_KINDS ? kind : 'others'
    const at = now()
    const before = last.get(known)
    if (before !== undefined && at - before.at < EVERY_MS) {
      before.suppressed++
      return null
    }
    last.set(known, { at, suppressed: 0 })
    return before?.suppressed ?? 0
  }
}
