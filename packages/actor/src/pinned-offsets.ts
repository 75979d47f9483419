/**
 * The offsets of a partition that recovery still needs. The lowest bounds the low-water mark.
 *
 * Offsets are pinned nearly always in ascending order, and unpinned in any order. So they stay
 * sorted, and `lowest` skips unpinned ones lazily: constant time on average. An offset may have
 * several owners, and stays pinned until the last of them unpins it.
 */
export class PinnedOffsets<Owner = undefined> {
  /** Ascending. It may contain unpinned offsets; `#pinned` decides. */
  #sorted: Array<number> = []
  #head = 0
  readonly #pinned = new Map<number, Owner | Owners<Owner> | undefined>()
  #size = 0

  /** The number of pins. An offset counts once for each of its owners. */
  get size(): number {
    return this.#size
  }

  /** Pins an offset for an owner. A second pin for the same owner changes nothing. */
  pin(offset: number, owner?: Owner): void {
    const last = this.#sorted.at(-1)
    if (last === undefined || this.#head === this.#sorted.length || offset > last) {
      this.#pinned.set(offset, owner)
      this.#size++
      this.#sorted.push(offset)
      return
    }
    const present = this.#pinned.get(offset)
    if (present instanceof Owners) {
      this.#size -= present.size
      this.#size += present.add(owner).size
      return
    }
    if (present !== undefined || this.#pinned.has(offset)) {
      if (present === owner) return
      this.#pinned.set(offset, new Owners([present, owner]))
      this.#size++
      return
    }
    this.#pinned.set(offset, owner)
    this.#size++
    let low = this.#head
    let high = this.#sorted.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#sorted[middle]! < offset) low = middle + 1
      else high = middle
    }
    // An earlier pin of the same offset, unpinned since then, may have left it in the array.
    if (this.#sorted[low] !== offset) this.#sorted.splice(low, 0, offset)
  }

  /** Unpins an offset for an owner. It changes nothing if this owner does not pin the offset. */
  unpin(offset: number, owner?: Owner): void {
    const present = this.#pinned.get(offset)
    if (present instanceof Owners) {
      if (present.delete(owner)) this.#size--
      if (present.size === 0) this.#pinned.delete(offset)
    } else if (present === owner && this.#pinned.delete(offset)) this.#size--
  }

  lowest(): number | null {
    while (this.#head < this.#sorted.length && !this.#pinned.has(this.#sorted[this.#head]!)) this.#head++
    // A copy pays off only when most of the array lies behind the head.
    if (this.#head > 1024 && this.#head * 2 > this.#sorted.length) {
      this.#sorted = this.#sorted.slice(this.#head)
      this.#head = 0
    }
    return this.#sorted[this.#head] ?? null
  }

  /** The owners by ascending offset. Pins that change meanwhile may be included or not. */
  *owners(): Generator<Owner> {
    const sorted = this.#sorted
    for (let i = this.#head; i < sorted.length; i++) {
      const present = this.#pinned.get(sorted[i]!)
      if (!(present instanceof Owners)) {
        if (present !== undefined) yield present
      } else for (const owner of present) if (owner !== undefined) yield owner
    }
  }
}

/** The owners of one offset. It is a class of its own because an owner may itself be a `Set`. */
class Owners<Owner> extends Set<Owner | undefined> {}
