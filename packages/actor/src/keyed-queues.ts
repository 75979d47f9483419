/**
 * Who is next: the queue discipline of a shard.
 *
 * An *actor* is what is queued under one key for one route: a queue for each lane, and at most one item taken at a time. Items
 * of an actor and lane leave in the order in which they came; a head that is blocked (it waits for something) holds what
 * is behind it in its lane, and nothing else. Among actors the one that became ready first is next. An actor
 * exists for as long as it has an item, and costs nothing afterwards. Routes know nothing of each other.
 */

/** What a queue needs to know of an item. */
export interface QueueItem {
  readonly key: string
  /** Index of the lane; lower lanes are more urgent. */
  readonly lane: number
  /** Items are taken by route: what one route has no room for does not hold another's. */
  readonly route: string
}

interface Actor<Item> {
  readonly key: string
  readonly queues: Array<Array<Item>>
  taken: Item | null
  /** For each lane, whether the actor stands in a line of ready actors. */
  readonly listed: Array<boolean>
}

class Line<Item> {
  #actors: Array<Actor<Item>> = []
  #head = 0
  push(actor: Actor<Item>): void {
    this.#actors.push(actor)
  }
  shift(): Actor<Item> | undefined {
    const actor = this.#actors[this.#head]
    if (actor === undefined) return undefined
    this.#head++
    if (this.#head === this.#actors.length) {
      this.#actors = []
      this.#head = 0
    } else if (this.#head > 1024 && this.#head * 2 > this.#actors.length) {
      this.#actors = this.#actors.slice(this.#head)
      this.#head = 0
    }
    return actor
  }
}

/** The actors of one route. */
interface Route<Item> {
  readonly actors: Map<string, Actor<Item>>
  /** For each lane, who may be next. */
  readonly ready: ReadonlyArray<Line<Item>>
  /** For each lane, items, the taken ones included. */
  readonly counts: Array<number>
}

export class KeyedQueues<Item extends QueueItem> {
  readonly #lanes: number
  readonly #routes = new Map<string, Route<Item>>()
  readonly #blocked = new Set<Item>()

  constructor(lanes: number) {
    this.#lanes = lanes
  }

  /** Keys that have an item, counted once for each route. */
  get actors(): number {
    let count = 0
    for (const { actors } of this.#routes.values()) count += actors.size
    return count
  }

  /** Items of a lane, of one route or of all, the taken ones included. */
  count(lane: number, route?: string): number {
    if (route !== undefined) return this.#routes.get(route)?.counts[lane] ?? 0
    let count = 0
    for (const { counts } of this.#routes.values()) count += counts[lane]!
    return count
  }

  /** True while an item of this key is taken. */
  isTaken(key: string): boolean {
    for (const { actors } of this.#routes.values()) if (actors.get(key)?.taken != null) return true
    return false
  }

  /** Adds an item behind all others of its key, lane and route. A blocked one waits for `unblock`. */
  push(item: Item, blocked: boolean): void {
    const route = this.#routeOf(item.route)
    let actor = route.actors.get(item.key)
    if (actor === undefined) {
      actor = {
        key: item.key,
        queues: Array.from({ length: this.#lanes }, () => []),
        taken: null,
        listed: Array.from({ length: this.#lanes }, () => false),
      }
      route.actors.set(item.key, actor)
    }
    actor.queues[item.lane]!.push(item)
    route.counts[item.lane]!++
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, actor)
  }

  /** Takes the next item of a lane for a route, or `null`. It stays at the head of its queue until it is given back or removed. */
  take(lane: number, route: string): Item | null {
    const line = this.#routes.get(route)?.ready[lane]
    if (line === undefined) return null
    for (;;) {
      const actor = line.shift()
      if (actor === undefined) return null
      actor.listed[lane] = false
      const head = actor.queues[lane]![0]
      if (actor.taken !== null || head === undefined || this.#blocked.has(head)) continue
      actor.taken = head
      return head
    }
  }

  /** A taken item is to be taken again later: at once, or when it is unblocked. */
  giveBack(item: Item, blocked: boolean): void {
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    if (route === undefined || actor === undefined || actor.taken !== item) return
    actor.taken = null
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, actor)
  }

  /** An item that waits for something: it and what is behind it in its lane stay where they are until `unblock`. */
  block(item: Item): void {
    this.#blocked.add(item)
  }

  unblock(item: Item): void {
    if (!this.#blocked.delete(item)) return
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    if (route !== undefined && actor !== undefined) this.#refresh(route, actor)
  }

  /** Takes an item out for good, wherever it stands, taken or not. */
  remove(item: Item): void {
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    const queue = actor?.queues[item.lane]
    if (route === undefined || actor === undefined || queue === undefined) return
    const at = queue.indexOf(item)
    if (at < 0) return
    queue.splice(at, 1)
    route.counts[item.lane]!--
    this.#blocked.delete(item)
    if (actor.taken === item) actor.taken = null
    if (actor.taken === null && actor.queues.every((items) => items.length === 0)) {
      route.actors.delete(item.key)
    } else {
      this.#refresh(route, actor)
    }
  }

  /** There are as many as operators: they stay. */
  #routeOf(name: string): Route<Item> {
    let route = this.#routes.get(name)
    if (route === undefined) {
      route = {
        actors: new Map(),
        ready: Array.from({ length: this.#lanes }, () => new Line<Item>()),
        counts: Array.from({ length: this.#lanes }, () => 0),
      }
      this.#routes.set(name, route)
    }
    return route
  }

  #refresh(route: Route<Item>, actor: Actor<Item>): void {
    if (actor.taken !== null) return
    for (let lane = 0; lane < this.#lanes; lane++) {
      const head = actor.queues[lane]![0]
      if (head === undefined || actor.listed[lane] === true || this.#blocked.has(head)) continue
      route.ready[lane]!.push(actor)
      actor.listed[lane] = true
    }
  }
}
