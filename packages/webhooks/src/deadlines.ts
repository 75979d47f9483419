/**
 * Who waits for something that takes equally long for all: one timer for any number of them, where thousands come and go in a second and
 * hardly any of them sees its end.
 *
 * They are a list and not a `Map`, through which they would pass as well: what has passed through a map stays until V8 collects the
 * whole heap (docs/decisions/0027).
 */
export class Deadlines<A> {
  readonly #ms: number
  readonly #onDeadline: (one: A) => void
  /** In the order in which they came, which is the order of their ends. */
  #first: Waiting<A> | null = null
  #last: Waiting<A> | null = null
  #timer: NodeJS.Timeout | null = null

  /** `ms`: how long each may wait; `onDeadline`: what then happens to it. */
  constructor(ms: number, onDeadline: (one: A) => void) {
    this.#ms = ms
    this.#onDeadline = onDeadline
  }

  /** Answers with its place, to be removed by. */
  add(one: A): Waiting<A> {
    const waiting: Waiting<A> = {
      one,
      at: performance.now() + this.#ms,
      waits: true,
      before: this.#last,
      behind: null,
    }
    if (this.#last === null) this.#first = waiting
    else this.#last.behind = waiting
    this.#last = waiting
    if (this.#timer === null) this.#wakeIn(this.#ms)
    return waiting
  }

  /** It waits no more. What waits no more already, or has seen its end, is left as it is. */
  remove(waiting: Waiting<A>): void {
    if (!waiting.waits) return
    const { before, behind } = waiting
    if (before === null) this.#first = behind
    else before.behind = behind
    if (behind === null) this.#last = before
    else behind.before = before
    waiting.waits = false
    // Nothing that has passed holds on to what comes behind it.
    waiting.before = null
    waiting.behind = null
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
    for (let waiting = this.#first; waiting !== null; waiting = this.#first) {
      if (waiting.at > now) {
        this.#wakeIn(Math.ceil(waiting.at - now))
        break
      }
      this.remove(waiting)
      due.push(waiting.one)
    }
    for (const one of due) this.#onDeadline(one)
  }
}

/** Somebody who waits, in a list of them. */
export interface Waiting<A> {
  readonly one: A
  /** Its end, on Node's monotonic clock, ms. */
  readonly at: number
  waits: boolean
  before: Waiting<A> | null
  behind: Waiting<A> | null
}
