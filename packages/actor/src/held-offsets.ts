/**
 * The offsets of a partition that are still needed. The smallest of them is what may be committed at most: the
 * partition's low-water mark.
 *
 * Offsets are held nearly always in rising order and released in any, so they are kept sorted and skipped lazily:
 * holding, releasing and asking for the lowest take constant time on average. Each may have an owner, who needs it.
 */
export class HeldOffsets<Owner = undefined> {
  /** Ascending. May contain offsets that are released already; `#held` decides. */
  #sorted: Array<number> = []
  #head = 0
  readonly #held = new Map<number, Owner | undefined>()

  get size(): number {
    return this.#held.size
  }

  /** Holding twice is holding once, for whoever came last. */
  hold(offset: number, owner?: Owner): void {
    const before = this.#held.size
    this.#held.set(offset, owner)
    if (this.#held.size === before) return
    const last = this.#sorted.at(-1)
    if (last === undefined || this.#head === this.#sorted.length || offset > last) {
      this.#sorted.push(offset)
      return
    }
    let low = this.#head
    let high = this.#sorted.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#sorted[middle]! < offset) low = middle + 1
      else high = middle
    }
    // Still there from an earlier hold that was released meanwhile.
    if (this.#sorted[low] !== offset) this.#sorted.splice(low, 0, offset)
  }

  release(offset: number): void {
    this.#held.delete(offset)
  }

  /** The smallest offset held, or `null` when nothing is. */
  lowest(): number | null {
    while (this.#head < this.#sorted.length && !this.#held.has(this.#sorted[this.#head]!)) this.#head++
    // Copying is worth it only when most of the array is behind.
    if (this.#head > 1024 && this.#head * 2 > this.#sorted.length) {
      this.#sorted = this.#sorted.slice(this.#head)
      this.#head = 0
    }
    return this.#sorted[this.#head] ?? null
  }

  /** Owners of what is held, from the smallest offset on. What is held and released meanwhile may be among them or not. */
  *owners(): Generator<Owner> {
    const sorted = this.#sorted
    for (let i = this.#head; i < sorted.length; i++) {
      const owner = this.#held.get(sorted[i]!)
      if (owner !== undefined) yield owner
    }
  }
}
