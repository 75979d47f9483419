/** The event journal as clients page through it. Source: specification, Delivery of events, 10; contract, Events. */
import type { EventsPage } from '@hub/contract'
import { decodeId, encodeId } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

/** A page: the events' JSON texts exactly as recorded, and the id of the last. */
export interface EventsFound {
  readonly bodies: ReadonlyArray<string>
  readonly lastId: string | null
  readonly hasMore: boolean
}

interface EventRow {
  readonly id: string
  readonly body: string
}

/** A moment as PostgreSQL takes it: there is no year 0, and nothing was recorded before the epoch. */
const momentOf = (ms: number): Date => new Date(Math.max(0, ms))

export class Events extends Context.Service<
  Events,
  {
    /** Events in the order of recording; `null` when `startingAfter` names none of the owner's. */
    readonly page: (owner: Owner, page: EventsPage) => Effect.Effect<EventsFound | null, StorageError>
  }
>()('@hub/command-api/Events') {
  static readonly layer: Layer.Layer<Events, never, Sql> = Layer.effect(
    Events,
    Effect.gen(function* () {
      const sql = yield* Sql

      /** Place of the event that a cursor names; -1 for none. */
      const placeOf = Effect.fnUntraced(function* (owner: Owner, cursor: string) {
        const id = decodeId('evt', cursor)
        if (id === null) return null
        const [row] = yield* sql.run(
          (q) => q<{ sequence: string }[]>`
            SELECT sequence FROM read.events
             WHERE id = ${id} AND account = ${owner.accountUuid} AND mode = ${owner.mode}`,
          DEADLINE,
        )
        return row?.sequence ?? null
      })

      return {
        page: Effect.fnUntraced(function* (owner, { createdAfter, limit, startingAfter, types }) {
          let after = '0'
          if (startingAfter !== null) {
            const place = yield* placeOf(owner, startingAfter)
            if (place === null) return null
            after = place
          }
          // One more than asked for tells whether there is more. `created_at` never goes back within an account and
          // mode, so ordering by it first changes nothing and lets its index serve.
          const rows = yield* sql.run(
            (q) => q<EventRow[]>`
              SELECT id, body FROM read.events
               WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}
                 ${createdAfter === null ? q`AND sequence > ${after}` : q`AND created_at > ${momentOf(createdAfter)}`}
                 ${types.length === 0 ? q`` : q`AND type = ANY (${[...types]}::text[])`}
               ORDER BY ${createdAfter === null ? q`sequence` : q`created_at, sequence`} LIMIT ${limit + 1}`,
            DEADLINE,
          )
          const shown = rows.slice(0, limit)
          const last = shown.at(-1)
          return {
            bodies: shown.map((row) => row.body),
            lastId: last === undefined ? null : encodeId('evt', last.id),
            hasMore: rows.length > limit,
          }
        }),
      }
    }),
  )
}
