/**
 * The offsets of a partition that are still needed. The smallest of them is what may be committed at most: the
 * partition's low-water mark.
 *
 * Offsets are held nearly always in rising order and released in any, so they are kept sorted and skipped lazily:
 * holding, releasing and asking for the lowest take constant time on average. Each may have an owner, who needs it, or several where
 * one record is about several things; it is held until the last of them has released it.
 */
export class PinnedOffsets<Owner = undefined> {
  /** Ascending. May contain offsets that are released already; `#held` decides. */
  #sorted: Array<number> = []
  #head = 0
  readonly #held = new Map<number, Owner | Several<Owner> | undefined>()
  #size = 0

  /** Offsets held, those of several owners as often as they have owners. */
  get size(): number {
    return this.#size
  }

  /** Holding twice for one owner is holding once. */
  hold(offset: number, owner?: Owner): void {
    const last = this.#sorted.at(-1)
    if (last === undefined || this.#head === this.#sorted.length || offset > last) {
      this.#held.set(offset, owner)
      this.#size++
      this.#sorted.push(offset)
      return
    }
    const there = this.#held.get(offset)
    if (there instanceof Several) {
      this.#size -= there.size
      this.#size += there.add(owner).size
      return
    }
    if (there !== undefined || this.#held.has(offset)) {
      if (there === owner) return
      this.#held.set(offset, new Several([there, owner]))
      this.#size++
      return
    }
    this.#held.set(offset, owner)
    this.#size++
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

  /** Nothing changes for what this owner does not hold. */
  release(offset: number, owner?: Owner): void {
    const there = this.#held.get(offset)
    if (there instanceof Several) {
      if (there.delete(owner)) this.#size--
      if (there.size === 0) this.#held.delete(offset)
    } else if (there === owner && this.#held.delete(offset)) this.#size--
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
      const there = this.#held.get(sorted[i]!)
      if (there instanceof Several) yield* there.named()
      else if (there !== undefined) yield there
    }
  }
}

/** Owners of one offset. Its own class, so that an owner may be a set. */
class Several<Owner> extends Set<Owner | undefined> {
  *named(): Generator<Owner> {
    for (const owner of this) if (owner !== undefined) yield owner
  }
}
