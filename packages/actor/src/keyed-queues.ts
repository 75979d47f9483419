/**
 * The queue discipline of a shard.
 *
 * An actor holds the items of one key and one route: one FIFO queue for each lane. At most one item
 * of an actor is taken at a time. A blocked item stops only the items behind it in its queue.
 * Actors are served in the order in which they became ready.
 */

export interface QueueItem {
  readonly key: string
  /** Index of the lane; lower lanes are more urgent. */
  readonly lane: number
  /** The caller takes items by route, so a slow route does not delay the others. */
  readonly route: string
}

interface Actor<Item> {
  readonly key: string
  readonly queues: Array<Array<Item>>
  taken: Item | null
  /** For each lane, whether the actor is in the ready queue. */
  readonly isReady: Array<boolean>
}

class ReadyQueue<Item> {
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

interface Route<Item> {
  readonly actors: Map<string, Actor<Item>>
  readonly ready: ReadonlyArray<ReadyQueue<Item>>
  /** The number of items in each lane, including taken items. */
  readonly counts: Array<number>
}

export class KeyedQueues<Item extends QueueItem> {
  readonly #lanes: number
  readonly #routes = new Map<string, Route<Item>>()
  readonly #blocked = new Set<Item>()

  constructor(lanes: number) {
    this.#lanes = lanes
  }

  /** The number of keys with an item, counted once for each route. */
  get actors(): number {
    let count = 0
    for (const { actors } of this.#routes.values()) count += actors.size
    return count
  }

  /** The number of items in a lane, of one route or of all, including taken items. */
  count(lane: number, route?: string): number {
    if (route !== undefined) return this.#routes.get(route)?.counts[lane] ?? 0
    let count = 0
    for (const { counts } of this.#routes.values()) count += counts[lane]!
    return count
  }

  isTaken(key: string): boolean {
    for (const { actors } of this.#routes.values()) if (actors.get(key)?.taken != null) return true
    return false
  }

  /** Appends an item to the queue of its key, lane and route. A blocked one waits for `unblock`. */
  push(item: Item, blocked: boolean): void {
    const route = this.#routeOf(item.route)
    let actor = route.actors.get(item.key)
    if (actor === undefined) {
      actor = {
        key: item.key,
        queues: Array.from({ length: this.#lanes }, () => []),
        taken: null,
        isReady: Array.from({ length: this.#lanes }, () => false),
      }
      route.actors.set(item.key, actor)
    }
    actor.queues[item.lane]!.push(item)
    route.counts[item.lane]!++
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, actor)
  }

  /** Takes the next item, or returns `null`. It stays at the head until requeued or removed. */
  take(lane: number, route: string): Item | null {
    const ready = this.#routes.get(route)?.ready[lane]
    if (ready === undefined) return null
    for (;;) {
      const actor = ready.shift()
      if (actor === undefined) return null
      actor.isReady[lane] = false
      const head = actor.queues[lane]![0]
      if (actor.taken !== null || head === undefined || this.#blocked.has(head)) continue
      actor.taken = head
      return head
    }
  }

  /** Makes a taken item available again: at once, or after `unblock`. */
  requeue(item: Item, blocked: boolean): void {
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    if (route === undefined || actor === undefined || actor.taken !== item) return
    actor.taken = null
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, actor)
  }

  /** Blocks an item, and the items behind it in its queue, until `unblock`. */
  block(item: Item): void {
    this.#blocked.add(item)
  }

  unblock(item: Item): void {
    if (!this.#blocked.delete(item)) return
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    if (route !== undefined && actor !== undefined) this.#refresh(route, actor)
  }

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

  /** Routes are never removed: there is one for each operator. */
  #routeOf(name: string): Route<Item> {
    let route = this.#routes.get(name)
    if (route === undefined) {
      route = {
        actors: new Map(),
        ready: Array.from({ length: this.#lanes }, () => new ReadyQueue<Item>()),
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
      if (head === undefined || actor.isReady[lane] === true || this.#blocked.has(head)) continue
      route.ready[lane]!.push(actor)
      actor.isReady[lane] = true
    }
  }
}
