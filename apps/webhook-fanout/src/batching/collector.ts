/**
 * How events become batches: up to a number of them, or what has come within a window of the first. Pure: the clock is
 * an argument. Source: specification, Delivery of events, 1.
 *
 * Events stay until they are known to be stored (`cut`, then `remove`), so that a failed transaction changes nothing
 * and the lowest offset that is still needed is always known.
 */

/** An event that a subscription is to get. */
export interface CollectedEvent {
  /** `evt_…` */
  readonly id: string
  /** Place in the journal of its account and mode. */
  readonly sequence: number
  /** JSON text, exactly as it is served. Shared by all subscriptions of the account. */
  readonly body: string
  /** Where it was read. */
  readonly offset: number
  /** Where it is traced. */
  readonly traceparent?: string
}

/** What is to become one batch. */
export interface Cut<S> {
  readonly subscription: S
  /** Never empty. */
  readonly events: ReadonlyArray<CollectedEvent>
}

interface Buffer {
  readonly events: Array<CollectedEvent>
  /** When each of them was added, milliseconds since the epoch. */
  readonly addedAt: Array<number>
}

export interface CollectorOptions {
  readonly batchEvents: number
  readonly batchWindowMs: number
}

/**
 * The events of one partition that are not stored yet, by subscription. Only subscriptions that have any take part in
 * what is counted through here; these are those with traffic in the last second.
 */
export class Collector<S> {
  readonly #options: CollectorOptions
  readonly #buffers = new Map<S, Buffer>()
  #events = 0
  #characters = 0

  constructor(options: CollectorOptions) {
    this.#options = options
  }

  /** Events, counted once for each subscription that is to get them. */
  get events(): number {
    return this.#events
  }

  /** Characters of their bodies, counted likewise: an upper bound of what they take. */
  get characters(): number {
    return this.#characters
  }

  add(subscription: S, event: CollectedEvent, now: number): void {
    let buffer = this.#buffers.get(subscription)
    if (buffer === undefined) {
      buffer = { events: [], addedAt: [] }
      this.#buffers.set(subscription, buffer)
    }
    buffer.events.push(event)
    buffer.addedAt.push(now)
    this.#events += 1
    this.#characters += event.body.length
  }

  /** When something is due, milliseconds since the epoch: at once (`-Infinity`) for a full batch; `null`: never. */
  nextDue(): number | null {
    let due: number | null = null
    for (const { addedAt } of this.#buffers.values()) {
      if (addedAt.length >= this.#options.batchEvents) return Number.NEGATIVE_INFINITY
      const at = addedAt[0]! + this.#options.batchWindowMs
      if (due === null || at < due) due = at
    }
    return due
  }

  /**
   * The batches that are due at `now`, with at most `limit` events in all (and at least one batch where any is due).
   * The events stay until `remove`.
   */
  cut(now: number, limit: number): ReadonlyArray<Cut<S>> {
    const { batchEvents, batchWindowMs } = this.#options
    const cuts: Array<Cut<S>> = []
    let taken = 0
    for (const [subscription, { addedAt, events }] of this.#buffers) {
      for (let start = 0; start < events.length; start += batchEvents) {
        const end = Math.min(start + batchEvents, events.length)
        if (end - start < batchEvents && addedAt[start]! + batchWindowMs > now) break
        if (taken > 0 && taken + end - start > limit) return cuts
        cuts.push({ subscription, events: events.slice(start, end) })
        taken += end - start
      }
    }
    return cuts
  }

  /** Takes out what was cut, once it is stored. Subscriptions dropped meanwhile have nothing left to take. */
  remove(cuts: ReadonlyArray<Cut<S>>): void {
    for (const { subscription, events } of cuts) {
      const buffer = this.#buffers.get(subscription)
      if (buffer === undefined || buffer.events[0] !== events[0]) continue
      buffer.events.splice(0, events.length)
      buffer.addedAt.splice(0, events.length)
      this.#forget(events)
      if (buffer.events.length === 0) this.#buffers.delete(subscription)
    }
  }

  /** Forgets a subscription that is gone. */
  drop(subscription: S): void {
    const buffer = this.#buffers.get(subscription)
    if (buffer === undefined) return
    this.#forget(buffer.events)
    this.#buffers.delete(subscription)
  }

  /** The lowest offset that is still needed once `without` is stored, or `null` when none is. */
  lowestOffset(without: ReadonlyArray<Cut<S>> = []): number | null {
    const stored = new Map<S, number>()
    for (const { subscription, events } of without) {
      stored.set(subscription, (stored.get(subscription) ?? 0) + events.length)
    }
    let lowest: number | null = null
    for (const [subscription, { events }] of this.#buffers) {
      const first = events[stored.get(subscription) ?? 0]
      if (first !== undefined && (lowest === null || first.offset < lowest)) lowest = first.offset
    }
    return lowest
  }

  #forget(events: ReadonlyArray<CollectedEvent>): void {
    this.#events -= events.length
    for (const event of events) this.#characters -= event.body.length
  }
}
