/**
 * The queue discipline of a shard.
 *
 * An actor holds the items of one key and one route: one FIFO queue for each lane. At most one item
 * of an actor is taken at a time. A blocked item stops only the items behind it in its queue.
 *
 * The caller takes items by account. The actors of an account are served in the order in which they
 * became ready. An actor keeps the order of its items: if an item of another account is in front,
 * the caller gets that one first.
 */

export interface QueueItem {
  readonly key: string
  /** Index of the lane; lower lanes are more urgent. */
  readonly lane: number
  /** The caller takes items by route, so a slow route does not delay the others. */
  readonly route: string
  readonly account: string
}

/** An account with items in a queue. */
interface Holder {
  readonly account: string
  items: number
  /** Whether the actor is in the ready queue of the account. */
  isReady: boolean
}

/** One lane of an actor. */
interface Queue<Item> {
  readonly items: Array<Item>
  /** Nearly always one. */
  readonly holders: Array<Holder>
}

interface Actor<Item> {
  readonly key: string
  readonly queues: ReadonlyArray<Queue<Item>>
  taken: Item | null
}

class ReadyQueue<Item> {
  #actors: Array<Actor<Item>> = []
  #head = 0
  push(actor: Actor<Item>): void {
    this.#actors.push(actor)
  }
  first(): Actor<Item> | undefined {
    return this.#actors[this.#head]
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
  /** For each lane, the ready queues of the accounts. */
  readonly ready: ReadonlyArray<Map<string, ReadyQueue<Item>>>
  /** The number of items in each lane, including taken items. */
  readonly counts: Array<number>
}

export class KeyedQueues<Item extends QueueItem> {
  readonly #lanes: number
  readonly #onReady: (lane: number, route: string, account: string) => void
  readonly #routes = new Map<string, Route<Item>>()
  readonly #blocked = new Set<Item>()

  /**
   * `onReady`: an account may have an item to take from now on, until `take` returns `null` for it.
   */
  constructor(lanes: number, onReady: (lane: number, route: string, account: string) => void) {
    this.#lanes = lanes
    this.#onReady = onReady
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
        queues: Array.from({ length: this.#lanes }, () => ({ items: [], holders: [] })),
        taken: null,
      }
      route.actors.set(item.key, actor)
    }
    const { holders, items } = actor.queues[item.lane]!
    items.push(item)
    const holder = holders.find(({ account }) => account === item.account)
    if (holder === undefined) holders.push({ account: item.account, items: 1, isReady: false })
    else holder.items++
    route.counts[item.lane]!++
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, item.route, actor)
  }

  /** The item that `take` would return. */
  peek(lane: number, route: string, account: string): Item | null {
    const accounts = this.#routes.get(route)?.ready[lane]
    const ready = accounts?.get(account)
    if (accounts === undefined || ready === undefined) return null
    for (let actor = ready.first(); actor !== undefined; actor = ready.first()) {
      const { holders, items } = actor.queues[lane]!
      const holder = holders.find((one) => one.account === account)
      const head = items[0]
      // It may have lost its items of this account, and got others, while it was in the ready queue.
      const isReady = holder !== undefined && actor.taken === null
      if (isReady && head !== undefined && !this.#blocked.has(head)) return head
      if (holder !== undefined) holder.isReady = false
      ready.shift()
    }
    accounts.delete(account)
    return null
  }

  /**
   * Takes the next item of an account, or the item of another account in front of it. Returns `null`
   * without any. The item stays at the head until requeued or removed.
   */
  take(lane: number, route: string, account: string): Item | null {
    const item = this.peek(lane, route, account)
    if (item === null) return null
    const actor = this.#routes.get(route)!.ready[lane]!.get(account)!.shift()!
    actor.queues[lane]!.holders.find((one) => one.account === account)!.isReady = false
    actor.taken = item
    return item
  }

  /** Makes a taken item available again: at once, or after `unblock`. */
  requeue(item: Item, blocked: boolean): void {
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    if (route === undefined || actor === undefined || actor.taken !== item) return
    actor.taken = null
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, item.route, actor)
  }

  /** Blocks an item, and the items behind it in its queue, until `unblock`. */
  block(item: Item): void {
    this.#blocked.add(item)
  }

  unblock(item: Item): void {
    if (!this.#blocked.delete(item)) return
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    if (route !== undefined && actor !== undefined) this.#refresh(route, item.route, actor)
  }

  remove(item: Item): void {
    const route = this.#routes.get(item.route)
    const actor = route?.actors.get(item.key)
    const queue = actor?.queues[item.lane]
    if (route === undefined || actor === undefined || queue === undefined) return
    const at = queue.items.indexOf(item)
    if (at < 0) return
    queue.items.splice(at, 1)
    const holder = queue.holders.findIndex(({ account }) => account === item.account)
    if (--queue.holders[holder]!.items === 0) queue.holders.splice(holder, 1)
    route.counts[item.lane]!--
    this.#blocked.delete(item)
    if (actor.taken === item) actor.taken = null
    if (actor.taken === null && actor.queues.every(({ items }) => items.length === 0)) {
      route.actors.delete(item.key)
    } else {
      this.#refresh(route, item.route, actor)
    }
  }

  /** Routes are never removed: there is one for each operator. */
  #routeOf(name: string): Route<Item> {
    let route = this.#routes.get(name)
    if (route === undefined) {
      route = {
        actors: new Map(),
        ready: Array.from({ length: this.#lanes }, () => new Map<string, ReadyQueue<Item>>()),
        counts: Array.from({ length: this.#lanes }, () => 0),
      }
      this.#routes.set(name, route)
    }
    return route
  }

  #refresh(route: Route<Item>, name: string, actor: Actor<Item>): void {
    if (actor.taken !== null) return
    for (let lane = 0; lane < this.#lanes; lane++) {
      const { holders, items } = actor.queues[lane]!
      const head = items[0]
      if (head === undefined || this.#blocked.has(head)) continue
      for (const holder of holders) {
        if (holder.isReady) continue
        holder.isReady = true
        const ready = route.ready[lane]!
        let queue = ready.get(holder.account)
        if (queue === undefined) {
          queue = new ReadyQueue<Item>()
          ready.set(holder.account, queue)
          this.#onReady(lane, name, holder.account)
        }
        queue.push(actor)
      }
    }
  }
}
