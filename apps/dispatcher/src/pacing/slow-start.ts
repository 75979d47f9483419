/**
 * Limits the parts that a process submits to an operator whose limit is not known yet. The limit begins
 * low, and rises by half with each tenth of a second in which it was used up. So an operator with a low
 * limit throttles few parts until its rate is known. And it accepts parts again soon after, because most
 * of the second that it counts has passed by then.
 *
 * Pure: no clock, no timer and no I/O. Times are milliseconds.
 *
 * Source: the slow start of TCP (V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988), with
 * tenths of a second in place of round trips.
 */

const TENTH_MS = 100
/** Parts in the first tenth of a second: 10 per second. */
const FIRST = 1
/**
 * With a factor of 2, the rate is five times the limit when the operator throttles first, and its next
 * second is used up at once. With 1.25, a process needs three seconds until it has no limit.
 */
const GROWTH = 1.5
/** A process that reads a backlog is often late, and must not rise more slowly because of it. */
const MOST_TENTHS = 4
/** 5,000 parts per second. Above it there is no limit: one process does not reach much more. */
const LAST = 500

export class SlowStart {
  /** Parts in a tenth of a second. */
  #limit = FIRST
  #tenthAt = Number.NEGATIVE_INFINITY
  /** Parts in this tenth of a second. More than the limit if a message has several parts. */
  #used = 0

  /** There is no limit any more. */
  get isDone(): boolean {
    return this.#limit > LAST
  }

  /** Whether a message may be taken now. Its further parts use parts of the future. */
  mayTake(now: number): boolean {
    if (this.isDone) return true
    const allowed = Math.floor(this.#limit)
    if (now >= this.nextAt) {
      const tenths = Math.floor((now - this.#tenthAt) / TENTH_MS)
      if (this.#used >= allowed) this.#limit *= GROWTH ** Math.min(MOST_TENTHS, tenths)
      this.#tenthAt = now
      this.#used = Math.max(0, this.#used - allowed)
    }
    return this.#used < Math.floor(this.#limit)
  }

  took(parts: number): void {
    this.#used += parts
  }

  /** When the next tenth of a second begins, in which further parts may be taken. */
  get nextAt(): number {
    return this.#tenthAt + TENTH_MS
  }
}
