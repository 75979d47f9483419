/** Reproducible random choices: the same seed makes the same choices. */
export interface Random {
  /** Returns an integer from 0 to `below` - 1. */
  readonly below: (below: number) => number
  readonly shuffled: <A>(items: ReadonlyArray<A>) => ReadonlyArray<A>
}

/**
 * A linear congruential generator modulo 2^32 with the constants of Numerical Recipes. It uses the
 * upper bits.
 */
export const seededRandom = (seed: number): Random => {
  let state = seed >>> 0
  const below = (bound: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 0x1_0000_0000) * bound)
  }
  return {
    below,
    shuffled: (items) => {
      const left = [...items]
      return items.map(() => left.splice(below(left.length), 1)[0]!)
    },
  }
}
