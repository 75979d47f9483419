/**
 * Collects events into batches: up to a number of events, or those within a time window from the
 * first one. Pure: the caller passes the time. Source: DEL-2.
 *
 * Events stay here until they are stored (`dueBatches`, then `markStored`). So a failed transaction
 * changes nothing, and the lowest offset that is not stored is always known.
 */
import type { NewWebhookBatch } from '../store/store.port.ts'

/** `sequence`: its position in the event journal. All subscriptions of the account share `body`. */
export type CollectedEvent = NewWebhookBatch['events'][number] & {
  /** Offset of its record. */
  readonly offset: number
}

/**
 * The events of a batch in the order of the event journal. Several projectors publish the events of
 * an account, so the order of the topic may differ from the journal.
 */
export const inJournalOrder = (events: ReadonlyArray<CollectedEvent>): ReadonlyArray<CollectedEvent> => {
  // Nearly always they are in order, and this runs for each batch.
  const ordered = events.every((event, index) => index === 0 || event.sequence > events[index - 1]!.sequence)
  return ordered ? events : events.toSorted((a, b) => a.sequence - b.sequence)
}

/** Events of one subscription that become one batch. */
interface BatchCandidate<S> {
  readonly subscription: S
  /** Never empty. */
  readonly events: ReadonlyArray<CollectedEvent>
}

interface Buffer {
  readonly events: Array<CollectedEvent>
  /** When each of them was added, milliseconds since the epoch. */
  readonly addedAt: Array<number>
}

interface CollectorOptions {
  readonly batchEvents: number
  readonly batchWindowMs: number
}

/**
 * The events of one partition that are not stored yet, by subscription. The scans below visit only
 * subscriptions with events: those with traffic in the last second.
 */
export class Collector<S> {
  readonly #options: CollectorOptions
  readonly #buffers = new Map<S, Buffer>()
  #events = 0
  #characters = 0

  constructor(options: CollectorOptions) {
    this.#options = options
  }

  /** Number of events. An event for two subscriptions counts twice. */
  get events(): number {
    return this.#events
  }

  /** Characters of their bodies, counted in the same way: an upper bound of their memory. */
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

  /** When a batch is due, ms since the epoch; `-Infinity`: a full one is due; `null`: none. */
  nextDue(): number | null {
    let due: number | null = null
    for (const { addedAt } of this.#buffers.values()) {
      if (addedAt.length >= this.#options.batchEvents) return Number.NEGATIVE_INFINITY
      const at = addedAt[0]! + this.#options.batchWindowMs
      if (due === null || at < due) due = at
    }
    return due
  }

  /** Due batches: at most `limit` events, but at least one batch. They stay until `markStored`. */
  dueBatches(now: number, limit: number): ReadonlyArray<BatchCandidate<S>> {
    const { batchEvents, batchWindowMs } = this.#options
    const due: Array<BatchCandidate<S>> = []
    let count = 0
    for (const [subscription, { addedAt, events }] of this.#buffers) {
      for (let start = 0; start < events.length; start += batchEvents) {
        const end = Math.min(start + batchEvents, events.length)
        if (end - start < batchEvents && addedAt[start]! + batchWindowMs > now) break
        if (count > 0 && count + end - start > limit) return due
        due.push({ subscription, events: events.slice(start, end) })
        count += end - start
      }
    }
    return due
  }

  /** Removes stored batches. A subscription may have been dropped meanwhile. */
  markStored(batches: ReadonlyArray<BatchCandidate<S>>): void {
    for (const { subscription, events } of batches) {
      const buffer = this.#buffers.get(subscription)
      if (buffer === undefined || buffer.events[0] !== events[0]) continue
      buffer.events.splice(0, events.length)
      buffer.addedAt.splice(0, events.length)
      this.#subtract(events)
      if (buffer.events.length === 0) this.#buffers.delete(subscription)
    }
  }

  /** Removes all events of a deleted subscription. */
  drop(subscription: S): void {
    const buffer = this.#buffers.get(subscription)
    if (buffer === undefined) return
    this.#subtract(buffer.events)
    this.#buffers.delete(subscription)
  }

  /** The lowest offset of the events that remain after `stored` is stored; `null`: none remain. */
  lowestOffset(stored: ReadonlyArray<BatchCandidate<S>> = []): number | null {
    const storedCount = new Map<S, number>()
    for (const { subscription, events } of stored) {
      storedCount.set(subscription, (storedCount.get(subscription) ?? 0) + events.length)
    }
    let lowest: number | null = null
    for (const [subscription, { events }] of this.#buffers) {
      const first = events[storedCount.get(subscription) ?? 0]
      if (first !== undefined && (lowest === null || first.offset < lowest)) lowest = first.offset
    }
    return lowest
  }

  #subtract(events: ReadonlyArray<CollectedEvent>): void {
    this.#events -= events.length
    for (const event of events) this.#characters -= event.body.length
  }
}
