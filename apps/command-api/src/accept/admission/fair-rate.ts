/**
 * The fair rate of accounts that want more than there is: max-min fairness with weights. An account
 * that wants less than its fair rate gets what it wants. What it leaves is shared among the others in
 * proportion to their weights. Pure.
 *
 * Source: D. Bertsekas, R. Gallager, "Data Networks", 6.5.2; used for refusals as in I. Stoica,
 * S. Shenker, H. Zhang, "Core-Stateless Fair Queueing", SIGCOMM 1998.
 */

/** `rate` and `capacity` in sends per second. `weight` is above 0. */
export interface Demand {
  readonly rate: number
  readonly weight: number
}

/**
 * The rate for each unit of weight, so that all together get the capacity. `Infinity`: all demands
 * together are at most the capacity.
 */
export const fairRate = (demands: ReadonlyArray<Demand>, capacity: number): number => {
  let fair = 0
  // In each round, accounts below the fair rate leave something to the others, so it rises. It ends when
  // a round adds no account: after a few rounds, and after as many as there are accounts at most.
  for (;;) {
    let left = capacity
    let weights = 0
    for (const { rate, weight } of demands) {
      if (rate <= fair * weight) left -= rate
      else weights += weight
    }
    if (weights === 0) return Infinity
    const next = left / weights
    if (next <= fair) return fair
    fair = next
  }
}
