/** Reproducible pseudorandom numbers. Each purpose has its own stream, so that one does not shift another. */

/** The hash function of PRNG seeds: FNV-1a with a final mix. */
const hashOf = (text: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash ^= hash >>> 16
  hash = Math.imul(hash, 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}

/** The generator `mulberry32`. */
export class SeededRandom {
  #state: number

  constructor(seed: number, stream: string) {
    this.#state = hashOf(`${seed} ${stream}`)
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** An integer from 0 to `bound` - 1. */
  below(bound: number): number {
    return Math.floor(this.next() * bound)
  }

  /** An integer from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + this.below(to - from + 1)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<A>(items: ReadonlyArray<A>): A {
    const item = items[this.below(items.length)]
    if (item === undefined) throw new RangeError('nothing to choose from')
    return item
  }

  fill(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i++) bytes[i] = this.below(256)
  }
}
