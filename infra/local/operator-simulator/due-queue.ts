/** What is to be done at a time of its own, earliest first. */

interface DueQueue<A> {
  readonly push: (at: number, item: A) => void
  /** Up to `limit` items whose time has come, removed. */
  readonly take: (now: number, limit: number) => ReadonlyArray<A>
  /** When the next one is due, or null. */
  readonly next: () => number | null
  readonly size: () => number
}

export const makeDueQueue = <A>(): DueQueue<A> => {
  const items: Array<{ readonly at: number; readonly item: A }> = []
  let sorted = true
  // Delays are the same for most, so that the items come nearly in order and sorting costs one pass.
  const sort = (): void => {
    if (!sorted) items.sort((a, b) => a.at - b.at)
    sorted = true
  }
  return {
    push: (at, item) => {
      const last = items.at(-1)
      if (last !== undefined && last.at > at) sorted = false
      items.push({ at, item })
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
