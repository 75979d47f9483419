/**
 * Deadlines of equal length for many waits, with one timer for all of them. The client starts
 * thousands of waits per second, and hardly any of them reaches its deadline.
 *
 * The entries are a linked list, not a `Map`: what has passed through a map stays in memory until
 * V8 collects the whole heap (docs/decisions/webhook-throughput.md#memory).
 */
export class DeadlineQueue<A> {
  readonly #ms: number
  readonly #onDeadline: (value: A) => void
  /** In the order of their start, which is the order of their deadlines. */
  #first: DeadlineEntry<A> | null = null
  #last: DeadlineEntry<A> | null = null
  #timer: NodeJS.Timeout | null = null

  /** `ms`: the length of each wait. `onDeadline` gets the value of an expired wait. */
  constructor(ms: number, onDeadline: (value: A) => void) {
    this.#ms = ms
    this.#onDeadline = onDeadline
  }

  /** Starts a wait. Returns the entry for `remove`. */
  add(value: A): DeadlineEntry<A> {
    const entry: DeadlineEntry<A> = {
      value,
      at: performance.now() + this.#ms,
      active: true,
      previous: this.#last,
      next: null,
    }
    if (this.#last === null) this.#first = entry
    else this.#last.next = entry
    this.#last = entry
    if (this.#timer === null) this.#startTimer(this.#ms)
    return entry
  }

  /** Ends a wait. Does nothing if the wait has already ended or reached its deadline. */
  remove(entry: DeadlineEntry<A>): void {
    if (!entry.active) return
    const { next, previous } = entry
    if (previous === null) this.#first = next
    else previous.next = next
    if (next === null) this.#last = previous
    else next.previous = previous
    entry.active = false
    // A removed entry must not keep the others in memory.
    entry.previous = null
    entry.next = null
  }

  /** The timer survives an empty queue, but does not keep the process alive. */
  #startTimer(ms: number): void {
    this.#timer = setTimeout(() => this.#onTimer(), ms)
    this.#timer.unref()
  }

  #onTimer(): void {
    this.#timer = null
    const now = performance.now()
    const due: Array<A> = []
    for (let entry = this.#first; entry !== null; entry = this.#first) {
      if (entry.at > now) {
        this.#startTimer(Math.ceil(entry.at - now))
        break
      }
      this.remove(entry)
      due.push(entry.value)
    }
    for (const value of due) this.#onDeadline(value)
  }
}

export interface DeadlineEntry<A> {
  readonly value: A
  /** The deadline on Node's monotonic clock, ms. */
  readonly at: number
  active: boolean
  previous: DeadlineEntry<A> | null
  next: DeadlineEntry<A> | null
}
