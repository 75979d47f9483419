/** Percentiles of measured values. */

/** The value below which `share` (0 to 1) of a sorted list lies. */
export const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN

/** The middle value; of an even number of values, the upper of the two. */
export const median = (values: ReadonlyArray<number>): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  )

export interface Latencies {
  readonly samples: number
  readonly p50: number
  readonly p99: number
}

export const latenciesOf = (times: ReadonlyArray<number>): Latencies => {
  const sorted = times.toSorted((a, b) => a - b)
  return { samples: sorted.length, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
}

/** Latencies in ms as a text, with a number of decimals. */
export const latencyText = ({ p50, p99 }: Pick<Latencies, 'p50' | 'p99'>, decimals = 0): string =>
  `p50 ${p50.toFixed(decimals)} ms, p99 ${p99.toFixed(decimals)} ms`
