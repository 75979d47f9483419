/** An outbox table in memory: the double of `store.port.ts`. It passes `store.contract.ts`. */
import { Effect } from 'effect'
import { decodeRow } from '../rows.ts'
import type { OutboxStatus, OutboxStoreShape, RelayedRows } from '../store.port.ts'

/** As in the relay of production. */
const ROWS_PER_STEP = 50

interface Row {
  readonly createdAt: number
}

type Rows<R extends Row> = Iterable<readonly [number, R]>

/** The rows of the next step of the relay. */
export const nextRows = <R extends Row>(
  rows: Rows<R>,
  { olderThanMs, upTo }: RelayedRows,
  now: number,
): ReadonlyArray<readonly [number, R]> =>
  [...rows]
    .filter(([id, { createdAt }]) => id <= upTo || now - createdAt >= olderThanMs)
    .toSorted(([a], [b]) => a - b)
    .slice(0, ROWS_PER_STEP)

export const statusOf = (rows: Rows<Row>, upTo: number, now: number): OutboxStatus => {
  const all = [...rows]
  const ids = all.map(([id]) => id)
  return {
    rows: ids.length,
    ageSeconds: Math.max(0, ...all.map(([, { createdAt }]) => now - createdAt)) / 1000,
    highest: Math.max(0, ...ids),
    rowsUpTo: ids.filter((id) => id <= upTo).length,
  }
}

/** `now`: PostgreSQL's clock, milliseconds since the epoch. */
export const makeMemoryOutbox = (now: () => number) => {
  const rows = new Map<number, Row & { /** Encoded. */ readonly records: Uint8Array }>()
  let next = 1
  let isRelaying = false

  const remove = (ids: ReadonlyArray<number>): void => {
    for (const id of ids) rows.delete(id)
  }
  /** Each part of the relay is a statement of its own in a simulation. */
  const oldest = (wanted: RelayedRows) => nextRows(rows, wanted, now())
  const status = (upTo: number): OutboxStatus => statusOf(rows, upTo, now())
  const store: OutboxStoreShape = {
    relay: (wanted, publish) =>
      Effect.suspend(() => {
        if (isRelaying) return Effect.succeed(0)
        const taken = oldest(wanted)
        if (taken.length === 0) return Effect.succeed(0)
        isRelaying = true
        return Effect.forEach(taken, ([, { records }]) => Effect.fromResult(decodeRow(records))).pipe(
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
      rows.set(id, { records, createdAt: now() })
      return id
    },
    oldest,
    status,
    remove,
    store,
  }
}
export type MemoryOutbox = ReturnType<typeof makeMemoryOutbox>
