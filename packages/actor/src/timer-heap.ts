/**
 * The timers of one shard: one moment a key, ordered by time, over whatever clock the caller reads.
 *
 * A binary heap that knows where each key is, so that a timer which is moved or cleared leaves nothing behind: report
 * deadlines lie a day ahead, and nearly all of them are cleared within seconds.
 */
export class TimerHeap<K> {
  readonly #entries: Array<{ readonly key: K; at: number }> = []
  readonly #index = new Map<K, number>()

  get size(): number {
    return this.#entries.length
  }

  /** When the earliest timer is due, milliseconds since the epoch, or `null`. */
  next(): number | null {
    return this.#entries[0]?.at ?? null
  }

  /** Sets or moves the timer of a key. `at` is milliseconds since the epoch; an infinite one clears it. */
  set(key: K, at: number): void {
    if (!Number.isFinite(at)) {
      this.clear(key)
      return
    }
    const found = this.#index.get(key)
    if (found === undefined) {
      this.#entries.push({ key, at })
      this.#index.set(key, this.#entries.length - 1)
      this.#up(this.#entries.length - 1)
      return
    }
    const entry = this.#entries[found]!
    const earlier = at < entry.at
    entry.at = at
    if (earlier) this.#up(found)
    else this.#down(found)
  }

  clear(key: K): void {
    const found = this.#index.get(key)
    if (found === undefined) return
    this.#index.delete(key)
    const last = this.#entries.pop()!
    if (found === this.#entries.length) return
    this.#entries[found] = last
    this.#index.set(last.key, found)
    this.#up(found)
    this.#down(found)
  }

  /** Takes the earliest key that is due at `now`, or `undefined`. */
  takeDue(now: number): K | undefined {
    const first = this.#entries[0]
    if (first === undefined || first.at > now) return undefined
    this.clear(first.key)
    return first.key
  }

  #swap(a: number, b: number): void {
    const first = this.#entries[a]!
    const second = this.#entries[b]!
    this.#entries[a] = second
    this.#entries[b] = first
    this.#index.set(second.key, a)
    this.#index.set(first.key, b)
  }

  #up(from: number): void {
    let i = from
    while (i > 0) {
      const parent = (i - 1) >>> 1
      if (this.#entries[parent]!.at <= this.#entries[i]!.at) return
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
      if (left < this.#entries.length && this.#entries[left]!.at < this.#entries[least]!.at) least = left
      if (right < this.#entries.length && this.#entries[right]!.at < this.#entries[least]!.at) least = right
      if (least === i) return
      this.#swap(i, least)
      i = least
    }
  }
}
