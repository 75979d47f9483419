/**
 * Who waits for something that takes equally long for all: one timer for any number of them, where thousands come and go in a second and
 * hardly any of them sees its end.
 */
export class Deadlines<A> {
  readonly #ms: number
  readonly #onDeadline: (one: A) => void
  /** In the order in which they came, which is the order of their ends: on Node's monotonic clock, ms. */
  readonly #waiting = new Map<A, number>()
  #timer: NodeJS.Timeout | null = null

  /** `ms`: how long each may wait; `onDeadline`: what then happens to it. */
  constructor(ms: number, onDeadline: (one: A) => void) {
    this.#ms = ms
    this.#onDeadline = onDeadline
  }

  add(one: A): void {
    this.#waiting.set(one, performance.now() + this.#ms)
    if (this.#timer === null) this.#wakeIn(this.#ms)
  }

  remove(one: A): void {
    this.#waiting.delete(one)
  }

  /** The timer stays when nobody waits any more: who comes next may need it, and it keeps no process alive. */
  #wakeIn(ms: number): void {
    this.#timer = setTimeout(() => this.#wake(), ms)
    this.#timer.unref()
  }

  #wake(): void {
    this.#timer = null
    const now = performance.now()
    const due: Array<A> = []
    for (const [one, at] of this.#waiting) {
      if (at > now) {
        this.#wakeIn(Math.ceil(at - now))
        break
      }
      due.push(one)
    }
    for (const one of due) this.#waiting.delete(one)
    for (const one of due) this.#onDeadline(one)
  }
}
