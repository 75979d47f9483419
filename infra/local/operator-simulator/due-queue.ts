/** A queue of items that become due at a time, earliest first. */
import type { EventEmitter } from 'node:events'

/** Emits `push` after each new item of any queue, so that an idle sender sleeps until then. */
export type Pushes = EventEmitter<{ readonly push: [] }>

interface DueQueue<A> {
  readonly push: (at: number, item: A) => void
  /** Removes and returns up to `limit` due items. */
  readonly take: (now: number, limit: number) => ReadonlyArray<A>
  /** The time of the first item, or null. */
  readonly next: () => number | null
  readonly size: () => number
}

export const makeDueQueue = <A>(pushes: Pushes): DueQueue<A> => {
  const items: Array<{ readonly at: number; readonly item: A }> = []
  let sorted = true
  // Most delays are equal, so items arrive nearly in order and sorting is cheap.
  const sort = (): void => {
    if (!sorted) items.sort((a, b) => a.at - b.at)
    sorted = true
  }
  return {
    push: (at, item) => {
      const last = items.at(-1)
      if (last !== undefined && last.at > at) sorted = false
      items.push({ at, item })
      pushes.emit('push')
    },
    take: (now, limit) => {
      sort()
      let count = 0
      while (count < limit && count < items.length && (items[count]?.at ?? Infinity) <= now) count++
      return items.splice(0, count).map(({ item }) => item)
    },
    next: () => {
      sort()
      return items[0]?.at ?? null
    },
    size: () => items.length,
  }
}
