/**
 * Inbound messages of one shard that have been read and not yet applied. Without I/O: the mark of the reports stays at the oldest of them, so
 * that a restart reads them again, and reading stops while there are too many.
 */
import type { InboundMessageReceived, IncomingRecord } from '@hub/kafka'

export interface WaitingInbound {
  readonly record: IncomingRecord
  readonly message: InboundMessageReceived
}

/** Of about 500 bytes each. They pile up only while PostgreSQL does not answer, and only those that ask for something. */
const MAX_WAITING = 2000

export class InboundQueue {
  readonly #waiting = new Map<number, WaitingInbound>()
  readonly #limit: number

  constructor(limit: number = MAX_WAITING) {
    this.#limit = limit
  }

  add(waiting: WaitingInbound): void {
    this.#waiting.set(waiting.record.offset, waiting)
  }

  /** It was applied, or asks for nothing. */
  done(offset: number): void {
    this.#waiting.delete(offset)
  }

  /** The oldest ones, in the order of the partition: they are added in that order. */
  first(count: number): ReadonlyArray<WaitingInbound> {
    const found: Array<WaitingInbound> = []
    for (const waiting of this.#waiting.values()) {
      if (found.length === count) break
      found.push(waiting)
    }
    return found
  }

  /** Offset of the oldest, or `null`. */
  get lowest(): number | null {
    const [lowest] = this.#waiting.keys()
    return lowest ?? null
  }
  get size(): number {
    return this.#waiting.size
  }
  get isFull(): boolean {
    return this.#waiting.size >= this.#limit
  }
  /** With some distance to `isFull`. */
  get hasRoom(): boolean {
    return this.#waiting.size <= this.#limit / 2
  }
}
