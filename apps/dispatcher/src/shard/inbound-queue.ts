/**
 * The inbound messages of one shard that are not applied yet. The oldest one bounds the low-water
 * mark of the reports. Reading stops while there are too many.
 */
import type { InboundMessageReceived, IncomingRecord } from '@hub/kafka'

export interface WaitingInbound {
  readonly record: IncomingRecord
  readonly message: InboundMessageReceived
}

/** About 500 bytes each. The queue grows only while PostgreSQL does not answer. */
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

  /** Removes a message that is applied or needs no action. */
  done(offset: number): void {
    this.#waiting.delete(offset)
  }

  /** The oldest messages, in partition order. */
  first(count: number): ReadonlyArray<WaitingInbound> {
    return this.#waiting.values().take(count).toArray()
  }

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
  /** Below half of the limit, so that the partition does not pause for every record. */
  get hasRoom(): boolean {
    return this.#waiting.size <= this.#limit / 2
  }
}
