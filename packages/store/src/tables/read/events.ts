/**
 * `read.events`: the event journal, a dense sequence for each account and mode, in monthly
 * partitions. Owner: projector. `created_at` never decreases along a sequence. So statements that
 * start at a position also bound `created_at`, and PostgreSQL does not open earlier months
 * (docs/decisions/0018).
 */
import type { Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'

/** The account (UUID) and mode of a journal. */
export interface Journal {
  readonly account: string
  readonly mode: Mode
}

/** A position: later events have a higher sequence number and no earlier `created_at`. */
export interface JournalPosition {
  readonly sequence: string
  readonly at: Date
}

/** A page of a journal: the JSON texts of its events exactly as recorded. */
export interface JournalPage {
  /** In UTF-8, with a comma between two events. */
  readonly texts: Uint8Array
  /** UUID of the last event. */
  readonly lastId: string | null
  readonly hasMore: boolean
}

export const EMPTY_PAGE: JournalPage = { texts: new Uint8Array(0), lastId: null, hasMore: false }

/** Only events of this period are shown, even if older rows exist. Specification, Retention. */
const SHOWN_FOR = '3 years'

/** The position of an event (UUID); `null` when the journal does not contain it. */
export const positionOf = async (
  q: Queries,
  { account, mode }: Journal,
  event: string,
): Promise<JournalPosition | null> => {
  const [row] = await q<JournalPosition[]>`
    SELECT sequence, created_at AS at FROM read.events
     WHERE id = ${event} AND account = ${account} AND mode = ${mode} AND created_at > now() - ${SHOWN_FOR}::interval`
  return row ?? null
}

/** The position before the first event after a moment (milliseconds since the epoch). */
export const positionBefore = async (
  q: Queries,
  { account, mode }: Journal,
  createdAfter: number,
): Promise<JournalPosition | null> => {
  // No event is older than the epoch, and PostgreSQL refuses the year 0.
  const moment = new Date(Math.max(0, createdAfter))
  const [row] = await q<JournalPosition[]>`
    SELECT sequence - 1 AS sequence, created_at AS at FROM read.events
     WHERE account = ${account} AND mode = ${mode} AND created_at > ${moment}
       AND created_at > now() - ${SHOWN_FOR}::interval
     ORDER BY created_at, sequence LIMIT 1`
  return row ?? null
}

const selectAll = (q: Queries, { account, mode }: Journal, after: JournalPosition, limit: number) => q`
  SELECT id, sequence, body FROM read.events
   WHERE account = ${account} AND mode = ${mode} AND sequence > ${after.sequence}
     AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
   ORDER BY sequence LIMIT ${limit}`

/** Finds `limit` events of each type in the index, then reads the first `limit` of all. */
const selectTypes = (
  q: Queries,
  { account, mode }: Journal,
  after: JournalPosition,
  limit: number,
  types: ReadonlyArray<string>,
) => q`
  SELECT e.id, e.sequence, e.body
    FROM (SELECT of_type.sequence, of_type.created_at
            FROM unnest(${[...types]}::text[]) AS wanted (type)
           CROSS JOIN LATERAL (
                 SELECT sequence, created_at FROM read.events
                  WHERE account = ${account} AND mode = ${mode}
                    AND type = wanted.type AND sequence > ${after.sequence}
                    AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
                  ORDER BY sequence LIMIT ${limit}) AS of_type
           ORDER BY of_type.sequence LIMIT ${limit}) AS found
   CROSS JOIN LATERAL (
         SELECT id, sequence, body FROM read.events
          WHERE account = ${account} AND mode = ${mode} AND sequence = found.sequence
            AND created_at = found.created_at LIMIT 1) AS e
   ORDER BY e.sequence`

/**
 * The first `limit` events after a position, of the types or, for an empty list, of all types.
 *
 * PostgreSQL joins the texts, and the driver passes them on as bytes: decoding a thousand rows into
 * strings and encoding them again costs several times as much as the rest of the request.
 */
export const readPage = async (
  q: Queries,
  journal: Journal,
  after: JournalPosition,
  limit: number,
  types: ReadonlyArray<string>,
): Promise<JournalPage> => {
  const rows =
    types.length === 0
      ? selectAll(q, journal, after, limit + 1)
      : selectTypes(q, journal, after, limit + 1, types)
  const [row] = await q`
    SELECT string_agg(body, ',') AS texts, (array_agg(id))[least(count(*), ${limit})::integer] AS last,
           (array_agg(octet_length(body)))[${limit + 1}::integer] AS beyond
      FROM (${rows}) AS page`.raw()
  const [texts, last, beyond] = row as ReadonlyArray<Buffer | null>
  if (texts == null || last == null) return EMPTY_PAGE
  const hasMore = beyond != null
  return {
    // The extra row shows that more follow. Its text and the comma before it are cut off.
    texts: hasMore ? texts.subarray(0, texts.length - Number(beyond.toString('latin1')) - 1) : texts,
    lastId: last.toString('latin1'),
    hasMore,
  }
}

interface StoredEvent {
  /** UUID. */
  readonly id: string
  readonly sequence: number
  readonly type: string
  /** JSON text, as `/v1/events` serves it. */
  readonly body: string
}

/** Which part of a journal to read: `createdUntil` is inclusive. */
interface JournalRange {
  readonly afterSequence: number
  readonly createdUntil: Date
  readonly limit: number
}

/** The first events of a part of a journal, oldest first. */
export const readRange = async (
  q: Queries,
  { account, mode }: Journal,
  { afterSequence, createdUntil, limit }: JournalRange,
): Promise<ReadonlyArray<StoredEvent>> =>
  q<StoredEvent[]>`
    SELECT id, sequence::float8 AS sequence, type, body FROM read.events
     WHERE account = ${account} AND mode = ${mode} AND sequence > ${afterSequence}
       AND created_at <= ${createdUntil}
     ORDER BY sequence LIMIT ${limit}`
