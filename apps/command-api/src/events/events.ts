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

/**
 * A place in the journal, and the moment from which on everything behind it was recorded: moments never go back along the places, so months
 * before it are not opened (docs/decisions/0018).
 */
interface Place {
  readonly sequence: string
  readonly at: Date
}

/** What is older is not shown, whether it is gone already or not. Source: specification, Retention. */
const SHOWN_FOR = '3 years'

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

      /** Place of the event that a cursor names; `null` for none of the owner's. */
      const placeOf = Effect.fnUntraced(function* (owner: Owner, cursor: string) {
        const id = decodeId('evt', cursor)
        if (id === null) return null
        const [row] = yield* sql.run(
          (q) => q<Place[]>`
            SELECT sequence, created_at AS at FROM read.events
             WHERE id = ${id} AND account = ${owner.accountUuid} AND mode = ${owner.mode}
               AND created_at > now() - ${SHOWN_FOR}::interval`,
          DEADLINE,
        )
        return row ?? null
      })

      /** Place before the first event that was recorded after a moment: `created_at` never goes back along the places. */
      const placeBefore = Effect.fnUntraced(function* (owner: Owner, createdAfter: number) {
        const [row] = yield* sql.run(
          (q) => q<Place[]>`
            SELECT sequence - 1 AS sequence, created_at AS at FROM read.events
             WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND created_at > ${momentOf(createdAfter)}
               AND created_at > now() - ${SHOWN_FOR}::interval
             ORDER BY created_at, sequence LIMIT 1`,
          DEADLINE,
        )
        return row ?? null
      })

      const select = (owner: Owner, after: Place, limit: number) =>
        sql.run(
          (q) => q<EventRow[]>`
            SELECT id, body FROM read.events
             WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND sequence > ${after.sequence}
               AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
             ORDER BY sequence LIMIT ${limit}`,
          DEADLINE,
        )

      /** Of each type as many as the page could need, found in its index alone; then of these the first. */
      const selectTypes = (owner: Owner, after: Place, limit: number, types: ReadonlyArray<string>) =>
        sql.run(
          (q) => q<EventRow[]>`
            SELECT e.id, e.body
              FROM (SELECT of_type.sequence, of_type.created_at
                      FROM unnest(${[...types]}::text[]) AS wanted (type)
                     CROSS JOIN LATERAL (
                           SELECT sequence, created_at FROM read.events
                            WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}
                              AND type = wanted.type AND sequence > ${after.sequence}
                              AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
                            ORDER BY sequence LIMIT ${limit}) AS of_type
                     ORDER BY of_type.sequence LIMIT ${limit}) AS found
             CROSS JOIN LATERAL (
                   SELECT id, sequence, body FROM read.events
                    WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND sequence = found.sequence
                      AND created_at = found.created_at LIMIT 1) AS e
             ORDER BY e.sequence`,
          DEADLINE,
        )

      return {
        page: Effect.fnUntraced(function* (owner, { createdAfter, limit, startingAfter, types }) {
          let after: Place = { sequence: '0', at: new Date(0) }
          if (startingAfter !== null) {
            const place = yield* placeOf(owner, startingAfter)
            if (place === null) return null
            after = place
          } else if (createdAfter !== null) {
            const place = yield* placeBefore(owner, createdAfter)
            if (place === null) return { bodies: [], lastId: null, hasMore: false }
            after = place
          }
          // One more than asked for tells whether there is more.
          const rows = yield* types.length === 0
            ? select(owner, after, limit + 1)
            : selectTypes(owner, after, limit + 1, types)
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
