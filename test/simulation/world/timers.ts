/** The timers of the simulated world: a binary heap by time, and by age among equal times. */

interface Timer {
  readonly at: number
  readonly order: number
  readonly act: () => void
  isCancelled: boolean
}

const isBefore = (a: Timer, b: Timer) => a.at < b.at || (a.at === b.at && a.order < b.order)

export class Timers {
  readonly #heap: Array<Timer> = []
  #created = 0

  /** Returns a function that cancels the timer. */
  add(at: number, act: () => void): () => void {
    const timer: Timer = { at, order: this.#created++, act, isCancelled: false }
    const heap = this.#heap
    let child = heap.length
    heap.push(timer)
    while (child > 0) {
      const parent = (child - 1) >> 1
      if (!isBefore(timer, heap[parent]!)) break
      heap[child] = heap[parent]!
      child = parent
    }
    heap[child] = timer
    return () => {
      timer.isCancelled = true
    }
  }

  /** The time of the next timer; `null` without one. */
  nextAt(): number | null {
    while (this.#heap[0]?.isCancelled === true) this.#removeFirst()
    return this.#heap[0]?.at ?? null
  }

  /** Removes the next timer and returns its action. */
  take(): () => void {
    const first = this.#removeFirst()
    return first.isCancelled ? () => {} : first.act
  }

  #removeFirst(): Timer {
    const heap = this.#heap
    const first = heap[0]!
    const last = heap.pop()!
    const size = heap.length
    if (size === 0) return first
    let parent = 0
    for (;;) {
      let child = 2 * parent + 1
      if (child >= size) break
      if (child + 1 < size && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[parent] = heap[child]!
      parent = child
    }
    heap[parent] = last
    return first
  }
}
