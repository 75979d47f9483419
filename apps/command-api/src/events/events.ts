/** The event journal as clients page through it. Source: specification, Delivery of events, 10; contract, Events. */
import type { EventsPage } from '@hub/contract'
import { decodeId, encodeId } from '@hub/domain'
import { type Queries, Sql, type StorageError } from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

/** A page: the events' JSON texts exactly as recorded, and the id of the last. */
export interface EventsFound {
  /** In UTF-8, with a comma between one event and the next. */
  readonly texts: Uint8Array
  readonly lastId: string | null
  readonly hasMore: boolean
}

const NOTHING: EventsFound = { texts: new Uint8Array(0), lastId: null, hasMore: false }

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

const select = (q: Queries, owner: Owner, after: Place, most: number) => q`
  SELECT id, sequence, body FROM read.events
   WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND sequence > ${after.sequence}
     AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
   ORDER BY sequence LIMIT ${most}`

/** Of each type as many as the page could need, found in its index alone; then of these the first. */
const selectTypes = (q: Queries, owner: Owner, after: Place, most: number, types: ReadonlyArray<string>) => q`
  SELECT e.id, e.sequence, e.body
    FROM (SELECT of_type.sequence, of_type.created_at
            FROM unnest(${[...types]}::text[]) AS wanted (type)
           CROSS JOIN LATERAL (
                 SELECT sequence, created_at FROM read.events
                  WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}
                    AND type = wanted.type AND sequence > ${after.sequence}
                    AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
                  ORDER BY sequence LIMIT ${most}) AS of_type
           ORDER BY of_type.sequence LIMIT ${most}) AS found
   CROSS JOIN LATERAL (
         SELECT id, sequence, body FROM read.events
          WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND sequence = found.sequence
            AND created_at = found.created_at LIMIT 1) AS e
   ORDER BY e.sequence`

/**
 * So many events of rows that are in order, of which there is one more where there is more, put together by PostgreSQL and taken as the bytes that it
 * sends: a thousand rows and their texts would cost the driver, and the way back to bytes, several times as much as everything else.
 */
const joined = async (q: Queries, rows: ReturnType<typeof select>, limit: number): Promise<EventsFound> => {
  const [row] = await q`
    SELECT string_agg(body, ',') AS texts, (array_agg(id))[least(count(*), ${limit})::integer] AS last,
           (array_agg(octet_length(body)))[${limit + 1}::integer] AS beyond
      FROM (${rows}) AS page`.raw()
  const [texts, last, beyond] = row as ReadonlyArray<Buffer | null>
  if (texts == null || last == null) return NOTHING
  const hasMore = beyond != null
  return {
    texts: hasMore ? texts.subarray(0, texts.length - Number(beyond.toString('latin1')) - 1) : texts,
    lastId: encodeId('evt', last.toString('latin1')),
    hasMore,
  }
}

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

      return {
        page: Effect.fnUntraced(function* (owner, { createdAfter, limit, startingAfter, types }) {
          let after: Place = { sequence: '0', at: new Date(0) }
          if (startingAfter !== null) {
            const place = yield* placeOf(owner, startingAfter)
            if (place === null) return null
            after = place
          } else if (createdAfter !== null) {
            const place = yield* placeBefore(owner, createdAfter)
            if (place === null) return NOTHING
            after = place
          }
          return yield* sql.run(
            (q) =>
              joined(
                q,
                types.length === 0
                  ? select(q, owner, after, limit + 1)
                  : selectTypes(q, owner, after, limit + 1, types),
                limit,
              ),
            DEADLINE,
          )
        }),
      }
    }),
  )
}
