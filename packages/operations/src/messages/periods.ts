/** The parts of a topic that can contain records of a message. Pure. */

/** Milliseconds since the epoch. */
export interface Period {
  readonly from: number
  readonly to: number
}

/** The clocks of the hub's machines differ by seconds. */
const AROUND_MS = 60_000

/** The period from a moment to another one, with the differences of clocks. */
export const between = (from: number, to: number): Period => ({ from: from - AROUND_MS, to: to + AROUND_MS })

/**
 * The periods in order, joined where they overlap. A reader reads all records of a partition in a
 * period, so short periods around the known moments cost little even if a message waited for days.
 */
export const joined = (periods: ReadonlyArray<Period>): ReadonlyArray<Period> => {
  const result: Array<Period> = []
  for (const period of periods.toSorted((a, b) => a.from - b.from)) {
    const last = result.at(-1)
    if (last !== undefined && period.from <= last.to) {
      result[result.length - 1] = { from: last.from, to: Math.max(last.to, period.to) }
    } else result.push(period)
  }
  return result
}
