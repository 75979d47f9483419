/**
 * The timers of one shard: one due time for each key, in a binary heap. It knows the index of each
 * key, so a moved or cleared timer leaves no entry behind. Report deadlines lie a day ahead, and
 * nearly all of them are cleared within seconds.
 */
export class TimerHeap<K> {
  /** Parallel arrays instead of one object for each timer: every open message has a timer. */
  readonly #keys: Array<K> = []
  readonly #times: Array<number> = []
  readonly #index = new Map<K, number>()

  get size(): number {
    return this.#keys.length
  }

  /** The due time of the earliest timer in ms since the epoch, or `null`. */
  next(): number | null {
    return this.#times[0] ?? null
  }

  /** The key of the earliest timer. */
  first(): K | undefined {
    return this.#keys[0]
  }

  /** Sets or moves the timer of a key to `at` (ms since the epoch). An infinite time clears it. */
  set(key: K, at: number): void {
    if (!Number.isFinite(at)) {
      this.clear(key)
      return
    }
    const found = this.#index.get(key)
    if (found === undefined) {
      const end = this.#keys.length
      this.#keys.push(key)
      this.#times.push(at)
      this.#sift(end, key, at)
    } else if (this.#times[found] !== at) this.#sift(found, key, at)
  }

  clear(key: K): void {
    const found = this.#index.get(key)
    if (found === undefined) return
    this.#index.delete(key)
    const last = this.#keys.pop()!
    const time = this.#times.pop()!
    if (found < this.#keys.length) this.#sift(found, last, time)
  }

  /** Removes and returns the earliest key that is due at `now`, or returns `undefined`. */
  takeDue(now: number): K | undefined {
    const at = this.#times[0]
    if (at === undefined || at > now) return undefined
    const key = this.#keys[0]!
    this.clear(key)
    return key
  }

  #put(index: number, key: K, at: number): void {
    this.#keys[index] = key
    this.#times[index] = at
    this.#index.set(key, index)
  }

  #sift(free: number, key: K, at: number): void {
    const keys = this.#keys
    const times = this.#times
    let index = free
    while (index > 0) {
      const parent = (index - 1) >>> 1
      if (times[parent]! <= at) break
      this.#put(index, keys[parent]!, times[parent]!)
      index = parent
    }
    while (index >= free) {
      const left = 2 * index + 1
      if (left >= times.length) break
      const least = left + 1 < times.length && times[left + 1]! < times[left]! ? left + 1 : left
      if (times[least]! >= at) break
      this.#put(index, keys[least]!, times[least]!)
      index = least
    }
    this.#put(index, key, at)
  }
}
