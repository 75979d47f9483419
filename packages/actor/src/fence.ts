/**
 * The fence of a log partition. Kafka fences neither the produces nor the commits of a member that lost its shard
 * without knowing; this does: whoever takes a shard writes `ShardOpened` with an epoch above every one before, and
 * what an older epoch claims behind that record is void for every reader of the log.
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

  /** The epoch in force; 0 before the first fence. */
  get epoch(): number {
    return this.#current?.epoch ?? 0
  }

  /** Of two fences with one epoch the first counts; the second member has to try again with a higher one. */
  observe(opening: Opening): void {
    if (this.#current === null || opening.epoch > this.#current.epoch) this.#current = opening
  }

  /** Whether the fence in force is this one. */
  isHeldBy(opening: Opening): boolean {
    return this.#current?.epoch === opening.epoch && this.#current.member === opening.member
  }

  /** Whether a claim of this epoch, read now, counts for nothing. */
  isVoid(epoch: number): boolean {
    return epoch < this.epoch
  }
}
