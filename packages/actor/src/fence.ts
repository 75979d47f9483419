/**
 * The fence of a log partition. Kafka does not reject the produces of a member that lost its shard
 * unnoticed. A new owner therefore appends `ShardOpened` with an epoch above all earlier ones.
 * Behind it, every reader ignores handover claims of lower epochs.
 *
 * A reader must start at a fence to know which claims are void. So the low-water mark of the log is
 * the last fence at or before the lowest pinned offset, and the owner repeats its fence so that the
 * mark can advance.
 */

export interface FenceOwner {
  readonly epoch: number
  readonly member: string
}

/** The fold of the fence records of a partition, in log order. */
export class Fence {
  #current: FenceOwner | null = null
  /** Ascending offsets of the fences that had the current epoch of their time. */
  #offsets: Array<number> = []

  get epoch(): number {
    return this.#current?.epoch ?? 0
  }

  get newestOffset(): number | null {
    return this.#offsets.at(-1) ?? null
  }

  /**
   * Folds a fence record. Of two members with one epoch the first wins; the other must try again.
   */
  observe(offset: number, owner: FenceOwner): void {
    if (this.#current === null || owner.epoch > this.#current.epoch) this.#current = owner
    if (owner.epoch === this.#current.epoch) this.#offsets.push(offset)
  }

  isOwnedBy({ epoch, member }: FenceOwner): boolean {
    return this.#current?.epoch === epoch && this.#current.member === member
  }

  /** Whether a reader at the current position must ignore a claim of this epoch. */
  isVoid(epoch: number): boolean {
    return epoch < this.epoch
  }

  /** The last fence at or before an offset, or `null`. It forgets all earlier fences. */
  lastAtOrBefore(offset: number): number | null {
    let last = -1
    while (last + 1 < this.#offsets.length && this.#offsets[last + 1]! <= offset) last++
    if (last < 0) return null
    if (last > 0) this.#offsets = this.#offsets.slice(last)
    return this.#offsets[0]!
  }
}
