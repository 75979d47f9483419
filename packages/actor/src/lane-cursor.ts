/**
 * Decides which records of a lane a shard keeps now, and from which offset the lane is read next.
 *
 * Each route (an operator) has a share of the lane's buffer, so that a slow operator does not stop
 * the lane for others. When a share is full, the cursor skips further records of that route and
 * keeps only the offset of the first one. When the share has room again, the lane is read again
 * from there, for this route alone, until the share is full or the frontier is reached. All records
 * before the frontier have been read at least once.
 *
 * The shares bound the memory, a record is read about twice at most, each route keeps the lane's
 * order, and the low-water mark of the lane is at most the first skipped offset.
 */

/** The free room of each route. The cursor asks for every record, so it must be cheap. */
interface RouteShares {
  readonly isFull: (route: string) => boolean
  readonly hasRoom: (route: string) => boolean
}

/**
 * The maximum records of one reread. New records of other routes wait meanwhile, about 0.1 s. A
 * share needs far fewer if its route dominates the lane.
 */
const REREAD_RECORDS = 10_000

/** The pause after a reread of that length, so that the frontier is read for at least as long. */
const REREAD_PAUSE_MS = 500

/**
 * How long the lane waits for a share that has just become full. A fast operator has made room by
 * then, and its records need not be read twice.
 */
const FULL_SHARE_WAIT_MS = 200

export class LaneCursor {
  readonly #shares: RouteShares
  #frontier = -1
  /** The first skipped offset of each route. */
  readonly #skipped = new Map<string, number>()
  #rereading: Set<string> | null = null
  #rereadFrom = 0
  #noRereadBefore = 0
  /** End of the wait for a share that became full; 0 while no wait has started. */
  #waitUntil = 0

  constructor(shares: RouteShares) {
    this.#shares = shares
  }

  /** Every record before this offset has been read at least once; -1 before the first record. */
  get frontier(): number {
    return this.#frontier
  }

  /** Whether a record is read for the first time. Ask before `accepts` or `pass`. */
  isNew(offset: number): boolean {
    return offset >= this.#frontier
  }

  /** Moves the frontier past a record without a route (an unreadable one). */
  pass(offset: number): void {
    if (!this.isNew(offset)) return
    this.#endReread()
    this.#frontier = offset + 1
  }

  /** Whether the shard must keep this record now. Call it once for each read, in order. */
  accepts(offset: number, route: string): boolean {
    if (!this.isNew(offset)) return this.#acceptsAgain(offset, route)
    this.pass(offset)
    if (this.#skipped.has(route)) return false
    if (!this.#shares.isFull(route)) return true
    this.#skipped.set(route, offset)
    return false
  }

  #acceptsAgain(offset: number, route: string): boolean {
    const from = this.#skipped.get(route)
    if (from === undefined || offset < from || this.#rereading?.has(route) !== true) return false
    if (this.#shares.isFull(route)) {
      this.#skipped.set(route, offset)
      this.#rereading.delete(route)
      return false
    }
    this.#skipped.set(route, offset + 1)
    return true
  }

  /**
   * The offset to seek to, or `null` to read on from `position` (the next offset). Ask after every
   * batch and whenever a share may have got room.
   */
  seekTarget(position: number, now: number): number | null {
    if (this.#rereading !== null) {
      if (position >= this.#frontier) {
        this.#endReread()
        return null
      }
      if (this.#rereading.size > 0 && position - this.#rereadFrom < REREAD_RECORDS) return null
      if (this.#rereading.size > 0) this.#noRereadBefore = now + REREAD_PAUSE_MS
      else this.#waitUntil = now + FULL_SHARE_WAIT_MS
      // The shard has kept all records of these routes before `position`.
      for (const route of this.#rereading) {
        this.#skipped.set(route, Math.max(position, this.#skipped.get(route) ?? position))
      }
      this.#rereading = null
      return this.#frontier
    }
    if (this.#skipped.size === 0) {
      this.#waitUntil = 0
      return null
    }
    if (this.#waitUntil === 0) this.#waitUntil = now + FULL_SHARE_WAIT_MS
    if (now < this.#noRereadBefore) return null
    const withRoom = [...this.#skipped].filter(([route]) => this.#shares.hasRoom(route))
    if (withRoom.length === 0) return null
    this.#rereading = new Set(withRoom.map(([route]) => route))
    this.#rereadFrom = Math.min(...withRoom.map(([, offset]) => offset))
    if (this.#rereadFrom < this.#frontier) return this.#rereadFrom
    this.#endReread()
    return null
  }

  /** Whether the lane should pause, because a share became full a moment ago. */
  isWaiting(now: number): boolean {
    if (this.#rereading !== null || now >= this.#waitUntil) return false
    for (const route of this.#skipped.keys()) if (this.#shares.hasRoom(route)) return false
    return true
  }

  /** The lowest skipped offset, or `null`. Recovery needs the lane from there. */
  lowestSkipped(): number | null {
    let lowest: number | null = null
    for (const offset of this.#skipped.values()) {
      if (lowest === null || offset < lowest) lowest = offset
    }
    return lowest
  }

  /** No skipped record of the reread routes is left before the frontier. */
  #endReread(): void {
    if (this.#rereading === null) return
    for (const route of this.#rereading) this.#skipped.delete(route)
    this.#rereading = null
  }
}
