/**
 * Which records of a lane are taken now, and where the lane is read next.
 *
 * A partition is one order, and what is read of it must be kept or be read again. Were a lane paused as soon as one
 * route (an operator) has as many waiting as it may, that route would hold everybody behind it, for as long as its operator is
 * away. So each route has a share of its own. When a route's share is full its records are *passed over*: not kept; only
 * the offset of the first is remembered. The lane is read on for the other routes. Once the route has room again,
 * the lane is read *again* from that offset, for this route alone, until the share is full or the frontier is
 * reached, up to which everything has been read once.
 *
 * So memory is bounded by the shares, whatever lies in the lane; a record is read about twice at most; each route keeps
 * the order of the lane; and the lane's low-water mark is at the first record passed over.
 */

/** What a route has room for. Asked for each record: it must be cheap. */
export interface Shares {
  /** Not one more. */
  readonly isFull: (route: string) => boolean
  /** Enough for it to be worth reading again. */
  readonly hasRoom: (route: string) => boolean
}

/**
 * Records of one reading again. At the frontier new records of other routes wait meanwhile: this many take
 * about a tenth of a second, and a share is filled from far fewer where its route is what the lane is full of.
 */
const PASS_RECORDS = 10_000

/** After one of so many, so that the frontier is read for at least as long. */
const PASS_PAUSE_MS = 500

/**
 * So long the lane waits for a share that has just become full, before it is read on for the others: a brisk operator has made room by
 * then, and its records need not be read twice.
 */
const PATIENCE_MS = 200

export class LaneCursor {
  readonly #shares: Shares
  /** Everything before it has been read at least once. */
  #frontier = -1
  /** First offset passed over, by route. */
  readonly #passedOver = new Map<string, number>()
  /** Routes for which the lane is being read again. */
  #again: Set<string> | null = null
  /** Where that began. */
  #againFrom = 0
  #notBefore = 0
  /** A share is full, and its operator may be about to make room; 0 when that has not been noticed yet. */
  #patientUntil = 0

  constructor(shares: Shares) {
    this.#shares = shares
  }

  /** Everything before this offset has been read at least once; -1 before the first record. */
  get frontier(): number {
    return this.#frontier
  }

  /** Whether the lane is being read again, behind the frontier. */
  get isReadingAgain(): boolean {
    return this.#again !== null
  }

  /** Whether a record is read for the first time. To be asked before `admit`. */
  isNew(offset: number): boolean {
    return offset >= this.#frontier
  }

  /** A record without a route (it cannot be read): it counts as read. */
  pass(offset: number): void {
    if (!this.isNew(offset)) return
    this.#complete()
    this.#frontier = offset + 1
  }

  /** Whether the record at this offset is to be taken now. To be asked once whenever it is read, in order. */
  admit(offset: number, route: string): boolean {
    if (!this.isNew(offset)) return this.#admitAgain(offset, route)
    this.pass(offset)
    if (this.#passedOver.has(route)) return false
    if (!this.#shares.isFull(route)) return true
    this.#passedOver.set(route, offset)
    return false
  }

  #admitAgain(offset: number, route: string): boolean {
    const from = this.#passedOver.get(route)
    if (from === undefined || offset < from || this.#again?.has(route) !== true) return false
    if (this.#shares.isFull(route)) {
      this.#passedOver.set(route, offset)
      this.#again.delete(route)
      return false
    }
    this.#passedOver.set(route, offset + 1)
    return true
  }

  /**
   * Where the lane is to be read next, when that is not where it stands: `position` is the next offset it would read.
   * To be asked after every batch and whenever room may have been made.
   */
  turn(position: number, now: number): number | null {
    if (this.#again !== null) {
      if (position >= this.#frontier) {
        this.#complete()
        return null
      }
      if (this.#again.size > 0 && position - this.#againFrom < PASS_RECORDS) return null
      if (this.#again.size > 0) this.#notBefore = now + PASS_PAUSE_MS
      else this.#patientUntil = now + PATIENCE_MS
      // Whatever these routes have before this place was taken.
      for (const route of this.#again) {
        this.#passedOver.set(route, Math.max(position, this.#passedOver.get(route) ?? position))
      }
      this.#again = null
      return this.#frontier
    }
    if (this.#passedOver.size === 0) {
      this.#patientUntil = 0
      return null
    }
    if (this.#patientUntil === 0) this.#patientUntil = now + PATIENCE_MS
    if (now < this.#notBefore) return null
    const wanted = [...this.#passedOver].filter(([route]) => this.#shares.hasRoom(route))
    if (wanted.length === 0) return null
    this.#again = new Set(wanted.map(([route]) => route))
    this.#againFrom = Math.min(...wanted.map(([, offset]) => offset))
    if (this.#againFrom < this.#frontier) return this.#againFrom
    this.#complete()
    return null
  }

  /** Whether the lane is better not read just now: a share has become full a moment ago. */
  waits(now: number): boolean {
    if (this.#again !== null || now >= this.#patientUntil) return false
    for (const route of this.#passedOver.keys()) if (this.#shares.hasRoom(route)) return false
    return true
  }

  /** The smallest offset passed over, or `null`: the lane is needed from there on. */
  lowest(): number | null {
    let lowest: number | null = null
    for (const offset of this.#passedOver.values()) {
      if (lowest === null || offset < lowest) lowest = offset
    }
    return lowest
  }

  /** Nothing of the routes that were read again for is left behind the frontier. */
  #complete(): void {
    if (this.#again === null) return
    for (const route of this.#again) this.#passedOver.delete(route)
    this.#again = null
  }
}
