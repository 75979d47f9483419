/**
 * The timers of one shard: one moment a key, ordered by time, over whatever clock the caller reads.
 *
 * A binary heap that knows where each key is, so that a timer which is moved or cleared leaves nothing behind: report
 * deadlines lie a day ahead, and nearly all of them are cleared within seconds.
 */
export class TimerHeap<K> {
  /** Side by side, so that a timer is no object of its own: there is one for each open message. */
  readonly #keys: Array<K> = []
  readonly #times: Array<number> = []
  readonly #index = new Map<K, number>()

  get size(): number {
    return this.#keys.length
  }

  /** When the earliest timer is due, milliseconds since the epoch, or `null`. */
  next(): number | null {
    return this.#times[0] ?? null
  }

  /** Sets or moves the timer of a key. `at` is milliseconds since the epoch; an infinite one clears it. */
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
      this.#settle(end, key, at)
    } else if (this.#times[found] !== at) this.#settle(found, key, at)
  }

  clear(key: K): void {
    const found = this.#index.get(key)
    if (found === undefined) return
    this.#index.delete(key)
    const last = this.#keys.pop()!
    const time = this.#times.pop()!
    if (found < this.#keys.length) this.#settle(found, last, time)
  }

  /** Takes the earliest key that is due at `now`, or `undefined`. */
  takeDue(now: number): K | undefined {
    const at = this.#times[0]
    if (at === undefined || at > now) return undefined
    const key = this.#keys[0]!
    this.clear(key)
    return key
  }

  #put(place: number, key: K, at: number): void {
    this.#keys[place] = key
    this.#times[place] = at
    this.#index.set(key, place)
  }

  /** Puts a timer where it belongs, from a place that is free on: what it passes moves up or down by one. */
  #settle(free: number, key: K, at: number): void {
    const keys = this.#keys
    const times = this.#times
    let place = free
    while (place > 0) {
      const parent = (place - 1) >>> 1
      if (times[parent]! <= at) break
      this.#put(place, keys[parent]!, times[parent]!)
      place = parent
    }
    while (place >= free) {
      const left = 2 * place + 1
      if (left >= times.length) break
      const least = left + 1 < times.length && times[left + 1]! < times[left]! ? left + 1 : left
      if (times[least]! >= at) break
      this.#put(place, keys[least]!, times[least]!)
      place = least
    }
    this.#put(place, key, at)
  }
}
