/** Percentiles of samples that stand for different numbers of messages. Pure. */

export interface WeightedSample {
  /** Milliseconds. */
  readonly values: ReadonlyArray<number>
  /** How many messages the values stand for together. */
  readonly messages: number
}

/**
 * The smallest values below or at which lie these shares (0 to 1) of the messages, in the order of the shares;
 * `null` without a value. An hour with many messages counts more than one with few, although both have
 * samples of the same size.
 */
export const percentilesOf = (
  samples: ReadonlyArray<WeightedSample>,
  shares: ReadonlyArray<number>,
): ReadonlyArray<number | null> => {
  const weighted = samples
    .flatMap(({ messages, values }) =>
      values.map((value) => ({ value, weight: Math.max(messages, 1) / values.length })),
    )
    .toSorted((a, b) => a.value - b.value)
  const total = weighted.reduce((sum, { weight }) => sum + weight, 0)
  /** Sums of fractions are not exact. */
  const tolerance = total * 1e-9
  return shares.map((share) => {
    let below = 0
    for (const { value, weight } of weighted) {
      below += weight
      if (below >= share * total - tolerance) return value
    }
    return null
  })
}
