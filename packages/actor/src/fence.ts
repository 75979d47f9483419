/**
 * The fence of a log partition. Kafka fences neither the produces nor the commits of a member that lost its shard
 * without knowing; this does: whoever takes a shard writes `ShardOpened` with an epoch above every one before, and
 * what an older epoch claims behind that record is void for every reader of the log.
 *
 * It follows that a reader must begin at a fence: from between two of them it could not tell a void claim from a
 * valid one. So the log's low-water mark is the last fence before what is needed, and a member writes its fence again
 * now and then, for the mark to move on.
 */

/** A fence as it is read from the log. */
export interface Opening {
  readonly epoch: number
  /** Random nonce of the member. */
  readonly member: string
}

/** The fold of a partition's fences, in the order of the log. */
export class Fence {
  #current: Opening | null = null
  /** Offsets, ascending, of the records that put the epoch in force that was in force there. */
  #places: Array<number> = []

  /** The epoch in force; 0 before the first fence. */
  get epoch(): number {
    return this.#current?.epoch ?? 0
  }

  /** Where the newest fence in force was read, or `null`. */
  get newest(): number | null {
    return this.#places.at(-1) ?? null
  }

  /** Of two fences with one epoch the first counts; the second member has to try again with a higher one. */
  observe(offset: number, opening: Opening): void {
    if (this.#current === null || opening.epoch > this.#current.epoch) this.#current = opening
    if (opening.epoch === this.#current.epoch) this.#places.push(offset)
  }

  /** Whether the fence in force is this one. */
  isHeldBy(opening: Opening): boolean {
    return this.#current?.epoch === opening.epoch && this.#current.member === opening.member
  }

  /** Whether a claim of this epoch, read now, counts for nothing. */
  isVoid(epoch: number): boolean {
    return epoch < this.epoch
  }

  /** The last fence at or before an offset, or `null` when none was read; earlier ones are forgotten. */
  before(offset: number): number | null {
    let last = -1
    while (last + 1 < this.#places.length && this.#places[last + 1]! <= offset) last++
    if (last < 0) return null
    if (last > 0) this.#places = this.#places.slice(last)
    return this.#places[0]!
  }
}
