/**
 * Decides which records of a lane a shard keeps now, and from which offset the lane is read next.
 *
 * Each route (the messages of an account for an operator) has a share of the lane's buffer, so that
 * a long backlog does not stop the lane for others. When a share is full, the cursor skips further
 * records of that route and keeps only the offset of the first one. When the share is nearly empty,
 * the lane is read again from there, until the share is full or the frontier is reached. All records
 * before the frontier have been read at least once.
 *
 * The shares bound the memory, `MAX_SKIPPED` the number of offsets, and `REREAD_PER_MS` the records
 * that are read again. Each route keeps the lane's order. The low-water mark of the lane is at most
 * the first skipped offset.
 */

/** The shares of the routes. The cursor asks for every record, so the answers must be cheap. */
interface RouteShares<Route> {
  readonly isFull: (route: Route) => boolean
  /** The cursor skips records of the route from now on. */
  readonly onSkip: (route: Route) => void
  /** No skipped record of the route is left. */
  readonly onCaughtUp: (route: Route) => void
  /** How much the route still has, compared with the last `onSkip`: 1 to 0. */
  readonly left: (route: Route) => number
}

/** A reread begins when a route has no more than this left. A fetch then fills most of the share. */
const REREAD_AT = 1 / 4

/** The maximum records of one reread. New records wait meanwhile, about 0.1 s. */
const REREAD_RECORDS = 10_000

/**
 * The average number of records that are read again: a tenth of what a process can read if it owns
 * one shard, and half of it with six shards. It fills shares with 8,000 messages per second.
 */
const REREAD_PER_MS = 20

/** A fetch contains about so many records. Skipped offsets that are this close are read together. */
const NEAR_RECORDS = 2000

/** How often the cursor looks for a route with room. There may be thousands. */
const LOOK_EVERY_MS = 20

/**
 * How long the lane waits for the first share that has become full. A fast operator has made room by
 * then, and its records need not be read twice.
 */
const FULL_SHARE_WAIT_MS = 200

/** At this number of skipped offsets, about 2 MB, the lane waits until one of them is free. */
const MAX_SKIPPED = 10_000

interface Reread<Route> {
  readonly from: number
  /** The routes whose records are kept, until their shares are full. */
  readonly routes: Set<Route>
  /** Those of them for which the reread was made. It ends when none is left. */
  readonly urgent: Set<Route>
}

export class LaneCursor<Route> {
  readonly #shares: RouteShares<Route>
  #frontier = -1
  /** The first skipped offset of each route. */
  readonly #skipped = new Map<Route, number>()
  #reread: Reread<Route> | null = null
  /** No reread begins before this time. */
  #pausedUntil = 0
  /** Records of a reread that has reached the frontier, and that no pause has followed yet. */
  #recordsReread = 0
  /** End of the wait for the first share that became full; `null` before the wait has started. */
  #waitUntil: number | null = 0

  constructor(shares: RouteShares<Route>) {
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
  accepts(offset: number, route: Route): boolean {
    if (!this.isNew(offset)) return this.#acceptsAgain(offset, route)
    this.pass(offset)
    if (this.#skipped.has(route)) return false
    if (!this.#shares.isFull(route)) return true
    if (this.#skipped.size === 0) this.#waitUntil = null
    this.#skipped.set(route, offset)
    this.#shares.onSkip(route)
    return false
  }

  /** The shard has given up the last records of the route, from this offset on. */
  giveUp(offset: number, route: Route): void {
    const from = this.#skipped.get(route)
    if (from === undefined || offset < from) this.#skipped.set(route, offset)
    this.#reread?.routes.delete(route)
    this.#reread?.urgent.delete(route)
    this.#shares.onSkip(route)
  }

  #acceptsAgain(offset: number, route: Route): boolean {
    const reread = this.#reread
    const from = this.#skipped.get(route)
    if (reread === null || from === undefined || offset < from || !reread.routes.has(route)) return false
    if (this.#shares.isFull(route)) {
      this.#skipped.set(route, offset)
      this.#shares.onSkip(route)
      reread.routes.delete(route)
      reread.urgent.delete(route)
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
    if (this.#reread !== null) {
      if (position < this.#frontier) return this.#leaveReread(this.#reread, position, now)
      this.#endReread()
    }
    if (this.#recordsReread > 0) this.#pauseRereads(now)
    if (this.#skipped.size === 0) return null
    this.#waitUntil ??= now + FULL_SHARE_WAIT_MS
    if (now < this.#pausedUntil) return null
    const reread = this.#plan()
    if (reread === null) {
      this.#pausedUntil = now + LOOK_EVERY_MS
      return null
    }
    this.#reread = reread
    if (reread.from < this.#frontier) return reread.from
    this.#endReread()
    return null
  }

  /** Returns to the frontier when the shares are full, or after enough records. */
  #leaveReread({ from, routes, urgent }: Reread<Route>, position: number, now: number): number | null {
    if (urgent.size > 0 && position - from < REREAD_RECORDS) return null
    this.#recordsReread = position - from
    this.#pauseRereads(now)
    // The shard has kept all records of these routes before `position`.
    for (const route of routes) {
      this.#skipped.set(route, Math.max(position, this.#skipped.get(route) ?? position))
    }
    this.#reread = null
    return this.#frontier
  }

  #pauseRereads(now: number): void {
    this.#pausedUntil = now + this.#recordsReread / REREAD_PER_MS
    this.#recordsReread = 0
  }

  /** The reread for the route that has the least left; `null` if all have enough. */
  #plan(): Reread<Route> | null {
    let target: number | null = null
    let least = REREAD_AT
    for (const [route, offset] of this.#skipped) {
      const left = this.#shares.left(route)
      if (left > least || this.#shares.isFull(route)) continue
      if (target !== null && left === least && offset > target) continue
      target = offset
      least = left
    }
    if (target === null) return null
    const isNear = (offset: number) => Math.abs(offset - target) <= NEAR_RECORDS
    let from = target
    const withRoom = [...this.#skipped].filter(([route]) => !this.#shares.isFull(route))
    for (const [, offset] of withRoom) if (offset < from && isNear(offset)) from = offset
    const routes = new Set<Route>()
    const urgent = new Set<Route>()
    for (const [route, offset] of withRoom) {
      if (offset < from) continue
      routes.add(route)
      if (isNear(offset) && this.#shares.left(route) <= REREAD_AT) urgent.add(route)
    }
    return { from, routes, urgent }
  }

  /**
   * Whether the lane should pause: its first share became full a moment ago, or there are too many
   * skipped offsets.
   */
  isWaiting(now: number): boolean {
    if (this.#reread !== null) return false
    if (this.#skipped.size >= MAX_SKIPPED) return true
    return now < (this.#waitUntil ?? 0) && this.#plan() === null
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
    if (this.#reread === null) return
    const { from, routes } = this.#reread
    for (const route of routes) {
      this.#skipped.delete(route)
      this.#shares.onCaughtUp(route)
    }
    this.#recordsReread = Math.max(0, this.#frontier - from)
    this.#reread = null
  }
}
