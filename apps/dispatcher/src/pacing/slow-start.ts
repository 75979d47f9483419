/**
 * Limits the parts that one process submits while the limit of the operator is unknown. This limit of the
 * process begins at 10 parts per second. It rises by half with each tenth of a second in which it was used
 * up. So an operator with a low limit throttles few parts until its rate is known, and the hub then waits
 * only for the rest of the operator's second.
 *
 * Pure: no clock, no timer and no I/O. Times are milliseconds.
 *
 * Source: the slow start of TCP (V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988), with
 * tenths of a second in place of round trips.
 */

const INTERVAL_MS = 100
/** Parts in the first interval. */
const INITIAL_LIMIT = 1
/**
 * With a factor of 2, the rate is five times the operator's limit when it throttles first, and its next
 * second is used up at once. With 1.25, a process needs three seconds until it has no limit.
 */
const GROWTH = 1.5
/**
 * A process that reads a backlog often comes late for the next interval. The limit rises for the missed
 * intervals too, but for no more than these.
 */
const MOST_STEPS = 4
/** Parts in an interval: 5,000 per second. Above it there is no limit: one process hardly reaches it. */
const LAST_LIMIT = 500

export class SlowStart {
  #limit = INITIAL_LIMIT
  #intervalAt = Number.NEGATIVE_INFINITY
  /** Parts in this interval. They exceed the limit if a message has several parts. */
  #used = 0

  /** There is no limit any more. */
  get isDone(): boolean {
    return this.#limit > LAST_LIMIT
  }

  /** The time between two parts of a message, ms. */
  get everyMs(): number {
    return this.isDone ? 0 : INTERVAL_MS / this.#limit
  }

  /**
   * Whether a message may be taken now. Begins the next interval if it is time. A message may exceed
   * the limit, and the excess counts against the next intervals.
   */
  mayTake(now: number): boolean {
    if (this.isDone) return true
    if (now >= this.nextAt) this.#beginInterval(now)
    return this.#used < Math.floor(this.#limit)
  }

  took(parts: number): void {
    this.#used += parts
  }

  /** When the next interval begins. */
  get nextAt(): number {
    return this.#intervalAt + INTERVAL_MS
  }

  #beginInterval(now: number): void {
    const passed = Math.floor((now - this.#intervalAt) / INTERVAL_MS)
    const allowed = Math.floor(this.#limit)
    if (this.#used >= allowed) this.#limit *= GROWTH ** Math.min(MOST_STEPS, passed)
    this.#used = Math.max(0, this.#used - allowed * passed)
    this.#intervalAt = now
  }
}
