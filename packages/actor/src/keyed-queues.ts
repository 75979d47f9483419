/**
 * Who is next: the queue discipline of a shard.
 *
 * An *actor* is what is queued under one key: a queue for each lane, and at most one item taken at a time. Items of a
 * key and lane leave in the order in which they came; a head that is blocked (it waits for something) holds what
 * is behind it in its lane, and nothing else. Among keys the one that became ready first is next. An actor
 * exists for as long as it has an item, and costs nothing afterwards.
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

export class KeyedQueues<Item extends QueueItem> {
  readonly #lanes: number
  readonly #actors = new Map<string, Actor<Item>>()
  readonly #blocked = new Set<Item>()
  readonly #ready: Array<Map<string, Line<Item>>>
  readonly #counts: Array<number>

  constructor(lanes: number) {
    this.#lanes = lanes
    this.#ready = Array.from({ length: lanes }, () => new Map())
    this.#counts = Array.from({ length: lanes }, () => 0)
  }

  /** Keys that have an item. */
  get actors(): number {
    return this.#actors.size
  }

  /** Items of a lane, the taken ones included. */
  count(lane: number): number {
    return this.#counts[lane]!
  }

  /** True while an item of this key is taken. */
  isTaken(key: string): boolean {
    return this.#actors.get(key)?.taken != null
  }

  /** Adds an item behind all others of its key and lane. A blocked one waits for `unblock`. */
  push(item: Item, blocked: boolean): void {
    let actor = this.#actors.get(item.key)
    if (actor === undefined) {
      actor = {
        key: item.key,
        queues: Array.from({ length: this.#lanes }, () => []),
        taken: null,
        listed: Array.from({ length: this.#lanes }, () => false),
      }
      this.#actors.set(item.key, actor)
    }
    actor.queues[item.lane]!.push(item)
    this.#counts[item.lane]!++
    if (blocked) this.#blocked.add(item)
    this.#refresh(actor)
  }

  /** Takes the next item of a lane for a route, or `null`. It stays at the head of its queue until it is given back or removed. */
  take(lane: number, route: string): Item | null {
    const line = this.#ready[lane]!.get(route)
    if (line === undefined) return null
    for (;;) {
      const actor = line.shift()
      if (actor === undefined) return null
      actor.listed[lane] = false
      const head = actor.queues[lane]![0]
      if (actor.taken !== null || head === undefined || this.#blocked.has(head)) continue
      if (head.route !== route) {
        this.#refresh(actor)
        continue
      }
      actor.taken = head
      return head
    }
  }

  /** A taken item is to be taken again later: at once, or when it is unblocked. */
  giveBack(item: Item, blocked: boolean): void {
    const actor = this.#actors.get(item.key)
    if (actor === undefined || actor.taken !== item) return
    actor.taken = null
    if (blocked) this.#blocked.add(item)
    this.#refresh(actor)
  }

  /** An item that waits for something: it and what is behind it in its lane stay where they are until `unblock`. */
  block(item: Item): void {
    this.#blocked.add(item)
  }

  unblock(item: Item): void {
    if (!this.#blocked.delete(item)) return
    const actor = this.#actors.get(item.key)
    if (actor !== undefined) this.#refresh(actor)
  }

  /** Takes an item out for good, wherever it stands, taken or not. */
  remove(item: Item): void {
    const actor = this.#actors.get(item.key)
    const queue = actor?.queues[item.lane]
    if (actor === undefined || queue === undefined) return
    const at = queue.indexOf(item)
    if (at < 0) return
    queue.splice(at, 1)
    this.#counts[item.lane]!--
    this.#blocked.delete(item)
    if (actor.taken === item) actor.taken = null
    if (actor.taken === null && actor.queues.every((items) => items.length === 0)) {
      this.#actors.delete(item.key)
    } else {
      this.#refresh(actor)
    }
  }

  #refresh(actor: Actor<Item>): void {
    if (actor.taken !== null) return
    for (let lane = 0; lane < this.#lanes; lane++) {
      const head = actor.queues[lane]![0]
      if (head === undefined || actor.listed[lane] === true || this.#blocked.has(head)) continue
      const lines = this.#ready[lane]!
      let line = lines.get(head.route)
      if (line === undefined) {
        line = new Line()
        lines.set(head.route, line)
      }
      line.push(actor)
      actor.listed[lane] = true
    }
  }
}
