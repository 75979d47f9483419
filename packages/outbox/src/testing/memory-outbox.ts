/** An outbox table in memory: the double of `store.port.ts`. It passes `store.contract.ts`. */
import { Effect } from 'effect'
import { decodeRow } from '../rows.ts'
import type { OutboxStatus, OutboxStoreShape, RelayedRows } from '../store.port.ts'

/** As in the relay of production. */
const ROWS_PER_STEP = 50

/** `now`: PostgreSQL's clock, milliseconds since the epoch. */
export const makeMemoryOutbox = (now: () => number) => {
  /** The encoded records, by row. */
  const rows = new Map<number, Uint8Array>()
  const createdAt = new Map<number, number>()
  let next = 1
  let isRelaying = false

  const remove = (ids: ReadonlyArray<number>): void => {
    for (const id of ids) {
      rows.delete(id)
      createdAt.delete(id)
    }
  }
  /** Each part of the relay is a statement of its own in a simulation. */
  const oldest = ({ olderThanMs, upTo }: RelayedRows): ReadonlyArray<readonly [number, Uint8Array]> =>
    [...rows]
      .filter(([id]) => id <= upTo || now() - createdAt.get(id)! >= olderThanMs)
      .toSorted(([a], [b]) => a - b)
      .slice(0, ROWS_PER_STEP)
  const status = (upTo: number): OutboxStatus => {
    const ids = [...rows.keys()]
    return {
      rows: ids.length,
      ageSeconds: Math.max(0, ...ids.map((id) => now() - createdAt.get(id)!)) / 1000,
      highest: Math.max(0, ...ids),
      rowsUpTo: ids.filter((id) => id <= upTo).length,
    }
  }
  const store: OutboxStoreShape = {
    relay: (wanted, publish) =>
      Effect.suspend(() => {
        if (isRelaying) return Effect.succeed(0)
        const taken = oldest(wanted)
        if (taken.length === 0) return Effect.succeed(0)
        isRelaying = true
        return Effect.forEach(taken, ([, row]) => Effect.fromResult(decodeRow(row))).pipe(
          Effect.orDie,
          Effect.flatMap((records) => publish(records.flat())),
          Effect.map(() => {
            remove(taken.map(([id]) => id))
            return taken.length
          }),
          Effect.ensuring(Effect.sync(() => (isRelaying = false))),
        )
      }),
    status: (upTo) => Effect.sync(() => status(upTo)),
    remove: (ids) => Effect.sync(() => remove(ids)),
  }
  return {
    rows,
    insert: (records: Uint8Array): number => {
      const id = next++
      rows.set(id, records)
      createdAt.set(id, now())
      return id
    },
    oldest,
    status,
    remove,
    store,
  }
}
export type MemoryOutbox = ReturnType<typeof makeMemoryOutbox>
