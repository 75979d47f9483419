/**
 * The queue discipline of a shard.
 *
 * An actor holds the items of one key and one route: one FIFO queue for each lane and account. At
 * most one item of an actor is taken at a time. A blocked item stops only the items behind it in its
 * queue, so no account can stop the items of another one.
 *
 * The caller takes items by account. The queues of an account are served in the order in which they
 * became ready.
 */

export interface QueueItem {
  readonly key: string
  /** Index of the lane; lower lanes are more urgent. */
  readonly lane: number
  /** The caller takes items by route, so a slow route does not delay the others. */
  readonly route: string
  readonly account: string
}

/** The items of an actor in one lane, of one account. It exists while it has items. */
interface Queue<Item> {
  readonly actor: Actor<Item>
  readonly lane: number
  readonly account: string
  readonly items: Array<Item>
  /** Whether the ready queue of the account contains it. */
  isReady: boolean
}

interface Actor<Item> {
  /** Nearly always one. */
  readonly queues: Array<Queue<Item>>
  taken: Item | null
}

/** The queues of one account and lane that may have an item to take, in the order of their turns. */
class ReadyQueue<Item> {
  #queues: Array<Queue<Item>> = []
  #head = 0
  push(queue: Queue<Item>): void {
    this.#queues.push(queue)
  }
  first(): Queue<Item> | undefined {
    return this.#queues[this.#head]
  }
  shift(): void {
    this.#head++
    if (this.#head === this.#queues.length) {
      this.#queues = []
      this.#head = 0
    } else if (this.#head > 1024 && this.#head * 2 > this.#queues.length) {
      this.#queues = this.#queues.slice(this.#head)
      this.#head = 0
    }
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

  /** Appends an item to the queue of its key, lane, account and route. A blocked one waits for `unblock`. */
  push(item: Item, blocked: boolean): void {
    const route = this.#routeOf(item.route)
    let actor = route.actors.get(item.key)
    if (actor === undefined) {
      actor = { queues: [], taken: null }
      route.actors.set(item.key, actor)
    }
    let queue = queueOf(actor, item)
    if (queue === undefined) {
      queue = { actor, lane: item.lane, account: item.account, items: [], isReady: false }
      actor.queues.push(queue)
    }
    queue.items.push(item)
    route.counts[item.lane]!++
    if (blocked) this.#blocked.add(item)
    this.#refresh(route, item.route, actor)
  }

  /** The item that `take` would return. */
  peek(lane: number, route: string, account: string): Item | null {
    const accounts = this.#routes.get(route)?.ready[lane]
    const ready = accounts?.get(account)
    if (accounts === undefined || ready === undefined) return null
    for (let queue = ready.first(); queue !== undefined; queue = ready.first()) {
      const [head] = queue.items
      if (head !== undefined && queue.actor.taken === null && !this.#blocked.has(head)) return head
      queue.isReady = false
      ready.shift()
    }
    accounts.delete(account)
    return null
  }

  /** Takes the next item of an account, or returns `null`. It stays at its head until requeued or removed. */
  take(lane: number, route: string, account: string): Item | null {
    const item = this.peek(lane, route, account)
    if (item === null) return null
    const ready = this.#routes.get(route)!.ready[lane]!.get(account)!
    const queue = ready.first()!
    ready.shift()
    queue.isReady = false
    queue.actor.taken = item
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
    if (route === undefined || actor === undefined) return
    const queue = queueOf(actor, item)
    const at = queue?.items.indexOf(item) ?? -1
    if (queue === undefined || at < 0) return
    queue.items.splice(at, 1)
    if (queue.items.length === 0) actor.queues.splice(actor.queues.indexOf(queue), 1)
    route.counts[item.lane]!--
    this.#blocked.delete(item)
    if (actor.taken === item) actor.taken = null
    if (actor.queues.length === 0) route.actors.delete(item.key)
    else this.#refresh(route, item.route, actor)
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
    for (const queue of actor.queues) {
      if (queue.isReady || this.#blocked.has(queue.items[0]!)) continue
      queue.isReady = true
      const accounts = route.ready[queue.lane]!
      let ready = accounts.get(queue.account)
      if (ready === undefined) {
        ready = new ReadyQueue<Item>()
        accounts.set(queue.account, ready)
        this.#onReady(queue.lane, name, queue.account)
      }
      ready.push(queue)
    }
  }
}

const queueOf = <Item>({ queues }: Actor<Item>, { account, lane }: QueueItem): Queue<Item> | undefined =>
  queues.find((queue) => queue.lane === lane && queue.account === account)
