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
      this.#keys.push(key)
      this.#times.push(at)
      this.#index.set(key, this.#keys.length - 1)
      this.#up(this.#keys.length - 1)
      return
    }
    const earlier = at < this.#times[found]!
    this.#times[found] = at
    if (earlier) this.#up(found)
    else this.#down(found)
  }

  clear(key: K): void {
    const found = this.#index.get(key)
    if (found === undefined) return
    this.#index.delete(key)
    const last = this.#keys.pop()!
    const time = this.#times.pop()!
    if (found === this.#keys.length) return
    this.#keys[found] = last
    this.#times[found] = time
    this.#index.set(last, found)
    this.#up(found)
    this.#down(found)
  }

  /** Takes the earliest key that is due at `now`, or `undefined`. */
  takeDue(now: number): K | undefined {
    const at = this.#times[0]
    if (at === undefined || at > now) return undefined
    const key = this.#keys[0]!
    this.clear(key)
    return key
  }

  #swap(a: number, b: number): void {
    const key = this.#keys[a]!
    const time = this.#times[a]!
    this.#keys[a] = this.#keys[b]!
    this.#times[a] = this.#times[b]!
    this.#keys[b] = key
    this.#times[b] = time
    this.#index.set(this.#keys[a], a)
    this.#index.set(key, b)
  }

  #up(from: number): void {
    let i = from
    while (i > 0) {
      const parent = (i - 1) >>> 1
      if (this.#times[parent]! <= this.#times[i]!) return
      this.#swap(i, parent)
      i = parent
    }
  }

  #down(from: number): void {
    let i = from
    for (;;) {
      const left = 2 * i + 1
      const right = left + 1
      let least = i
      if (left < this.#times.length && this.#times[left]! < this.#times[least]!) least = left
      if (right < this.#times.length && this.#times[right]! < this.#times[least]!) least = right
      if (least === i) return
      this.#swap(i, least)
      i = least
    }
  }
}
