/** Robust statistics: a minority of wrong values changes them little. Pure. */

/** The median; that of an even number of values is the mean of the middle two, and that of none is `NaN`. */
export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** What the median absolute deviation of a normal distribution is multiplied with to be its standard deviation. */
const DEVIATION_OF_MAD = 1.4826

/** The standard deviation of values around their median, by the median absolute deviation (MAD). */
export const robustDeviation = (values: ReadonlyArray<number>, center: number): number =>
  DEVIATION_OF_MAD * median(values.map((value) => Math.abs(value - center)))

/** The smallest value that, with all smaller ones, has half of the weight; `NaN` without any weight. */
export const weightedMedian = (
  values: ReadonlyArray<{ readonly value: number; readonly weight: number }>,
): number => {
  const sorted = values.toSorted((a, b) => a.value - b.value)
  const half = sorted.reduce((sum, { weight }) => sum + weight, 0) / 2
  let below = 0
  for (const { value, weight } of sorted) {
    below += weight
    if (weight > 0 && below >= half) return value
  }
  return Number.NaN
}
