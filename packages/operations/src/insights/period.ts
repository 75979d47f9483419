/** The period of insights, and the one before it. Pure. */

const HOUR_MS = 3_600_000

/** A period has so many parts, so that a chart of it fits on a screen and a page is read within 300 ms. */
export const PARTS = { hour: 24, day: 30 } as const
export type Unit = keyof typeof PARTS
export const LENGTH_MS: Readonly<Record<Unit, number>> = { hour: HOUR_MS, day: 24 * HOUR_MS }

/** Milliseconds since the epoch; `to` is not included. */
export interface Period {
  readonly from: number
  readonly to: number
}

/** The whole hours or days (UTC) that end with the one of `until`. */
export const periodUntil = (until: number, unit: Unit): Period => {
  const length = LENGTH_MS[unit]
  const to = (Math.floor(until / length) + 1) * length
  return { from: to - PARTS[unit] * length, to }
}

/** The period of the same length before. */
export const periodBefore = ({ from, to }: Period): Period => ({ from: from - (to - from), to: from })

/** The starts of the parts, in order. */
export const partsOf = ({ from, to }: Period, unit: Unit): ReadonlyArray<number> =>
  Array.from({ length: (to - from) / LENGTH_MS[unit] }, (_, i) => from + i * LENGTH_MS[unit])
