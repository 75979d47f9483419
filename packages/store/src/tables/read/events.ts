/**
 * `read.event_journal`: a dense sequence of events for each account and mode, in monthly
 * partitions. Owner: projector. `created_at` never decreases along a sequence. So statements that
 * start at a position also bound `created_at`, and PostgreSQL does not open earlier months
 * (docs/decisions/retention.md). The view `read.events` has the texts of the events.
 */
import { type Mode, toTimestamp } from '@hub/domain'
import { sqlArray } from '../../sql-array.ts'
import { firstRow, type Queries } from '../../sql.ts'
import { storedBody, storedRow, textOf } from './event-bodies.ts'

/** The account (UUID) and mode of a journal. */
export interface Journal {
  readonly account: string
  readonly mode: Mode
}

/** An event in its journal. `insert` expects ids as UUIDs. */
export interface JournalEvent extends Journal {
  /** The position in the journal, from 1, without gaps. */
  readonly sequence: number
  readonly id: string
  readonly type: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  /** The JSON text of the event, byte for byte as clients receive it. */
  readonly body: string
}

/** JSON escapes this character, so bodies can be joined by it: arrays need quotes, and rows of a page take longer. */
const SEPARATOR = '\u001e'

/** Appends events to their journals. The caller has locked the journal heads, and updates them. */
export const insert = (q: Queries, events: ReadonlyArray<JournalEvent>) => q`
  INSERT INTO read.event_journal (account, mode, sequence, id, type, created_at, body)
  SELECT account, mode::command.mode, sequence, id, type, created_at, body
    FROM unnest(${sqlArray(events.map((e) => e.account))}::uuid[],
                ${sqlArray(events.map((e) => e.mode))}::text[],
                ${sqlArray(events.map((e) => e.sequence))}::bigint[],
                ${sqlArray(events.map((e) => e.id))}::uuid[],
                ${sqlArray(events.map((e) => e.type))}::text[],
                ${sqlArray(events.map((e) => toTimestamp(e.createdAt)))}::timestamptz[],
                string_to_array(${events.map(storedBody).join(SEPARATOR)}, ${SEPARATOR}))
      AS e (account, mode, sequence, id, type, created_at, body)`

/** A position: later events have a higher sequence number and no earlier `created_at`. */
export interface JournalPosition {
  readonly sequence: string
  readonly at: Date
}

/** A page of a journal. */
export interface JournalPage {
  /** The JSON texts of its events exactly as recorded, in UTF-8, with a comma between two events. */
  readonly texts: Uint8Array
  /** UUID of the last event. */
  readonly lastId: string | null
  readonly hasMore: boolean
}

export const EMPTY_PAGE: JournalPage = { texts: new Uint8Array(0), lastId: null, hasMore: false }

/** Only events of this period are shown, even if older rows exist. Source: RET-5. */
const SHOWN_FOR = '3 years'

/** The position of an event (UUID); `null` when the journal does not contain it. */
export const positionOf = async (
  q: Queries,
  { account, mode }: Journal,
  event: string,
): Promise<JournalPosition | null> =>
  firstRow(q<JournalPosition[]>`
    SELECT sequence, created_at AS at FROM read.event_journal
     WHERE id = ${event} AND account = ${account} AND mode = ${mode} AND created_at > now() - ${SHOWN_FOR}::interval`)

/** When an event (UUID) was recorded, not before `since`; `null` without it. */
export const recordedAt = async (
  q: Queries,
  { account, mode }: Journal,
  event: string,
  since: Date,
): Promise<Date | null> => {
  const row = await firstRow(q<{ created_at: Date }[]>`
    SELECT created_at FROM read.event_journal
     WHERE id = ${event} AND account = ${account} AND mode = ${mode} AND created_at >= ${since}`)
  return row?.created_at ?? null
}

/**
 * The position before the first event after a moment (milliseconds since the epoch); `null` for a journal without
 * events.
 */
export const positionBefore = async (
  q: Queries,
  { account, mode }: Journal,
  createdAfter: number,
): Promise<JournalPosition | null> => {
  // No event is older than the epoch.
  const at = new Date(Math.max(0, createdAfter))
  const row = await firstRow(q<{ sequence: string | null }[]>`
    SELECT read.sequence_before(${account}, ${mode}, ${at}) AS sequence`)
  return row === null || row.sequence === null ? null : { sequence: row.sequence, at }
}

const selectAll = (q: Queries, { account, mode }: Journal, after: JournalPosition, limit: number) => q`
  SELECT * FROM read.event_journal
   WHERE account = ${account} AND mode = ${mode} AND sequence > ${after.sequence}
     AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
   ORDER BY sequence LIMIT ${limit}`

/** Finds the events by their ids (UUIDs), which follow from their subjects. */
const selectIds = (
  q: Queries,
  { account, mode }: Journal,
  after: JournalPosition,
  limit: number,
  ids: ReadonlyArray<string>,
) => q`
  SELECT * FROM read.event_journal
   WHERE id = ANY(${sqlArray(ids)}::uuid[]) AND account = ${account} AND mode = ${mode}
     AND sequence > ${after.sequence} AND created_at >= ${after.at}
     AND created_at > now() - ${SHOWN_FOR}::interval
   ORDER BY sequence LIMIT ${limit}`

/**
 * Finds `limit` events of each type in the index, then reads the first `limit` of all. The index has a hash of
 * account, mode and type, so rows of others with the same hash are left out.
 */
const selectTypes = (
  q: Queries,
  { account, mode }: Journal,
  after: JournalPosition,
  limit: number,
  types: ReadonlyArray<string>,
) => q`
  SELECT e.*
    FROM (SELECT of_type.sequence, of_type.created_at
            FROM unnest(${[...types]}::text[]) AS wanted (type)
           CROSS JOIN LATERAL (
                 SELECT sequence, created_at FROM read.event_journal
                  WHERE read.kind_of_event(account, mode, type)
                        = read.kind_of_event(${account}, ${mode}, wanted.type)
                    AND account = ${account} AND mode = ${mode} AND type = wanted.type AND sequence > ${after.sequence}
                    AND created_at >= ${after.at} AND created_at > now() - ${SHOWN_FOR}::interval
                  ORDER BY sequence LIMIT ${limit}) AS of_type
           ORDER BY of_type.sequence LIMIT ${limit}) AS found
   CROSS JOIN LATERAL (
         SELECT * FROM read.event_journal
          WHERE account = ${account} AND mode = ${mode} AND sequence = found.sequence
            AND created_at = found.created_at LIMIT 1) AS e
   ORDER BY e.sequence`

/** Which events of a journal to read: all, those of some types, or those with some ids (UUIDs). */
export type EventSelection =
  | { readonly by: 'type'; readonly types: ReadonlyArray<string> }
  | { readonly by: 'id'; readonly ids: ReadonlyArray<string> }

/**
 * The first `limit` events after a position, of the types (an empty list: of all types) or with the
 * ids.
 *
 * PostgreSQL joins the rows: a thousand of them as objects of the driver cost several times as much as the rest
 * of the request.
 */
export const readPage = async (
  q: Queries,
  journal: Journal,
  after: JournalPosition,
  limit: number,
  selection: EventSelection,
): Promise<JournalPage> => {
  const rows =
    selection.by === 'id'
      ? selectIds(q, journal, after, limit + 1, selection.ids)
      : selection.types.length === 0
        ? selectAll(q, journal, after, limit + 1)
        : selectTypes(q, journal, after, limit + 1, selection.types)
  const [page] = await q<{ rows: string | null }[]>`
    SELECT string_agg(${storedRow(q)}, ${SEPARATOR}) AS rows FROM (${rows}) AS page`
  if (page?.rows == null) return EMPTY_PAGE
  const found = page.rows.split(SEPARATOR)
  const shown = found.slice(0, limit)
  return {
    texts: Buffer.from(shown.map((row) => textOf(journal.mode, row)).join(',')),
    lastId: shown.at(-1)?.split('\t', 1)[0] ?? null,
    hasMore: found.length > limit,
  }
}

/** The JSON texts of events (UUIDs) of a journal, in the given order; missing ones are left out. */
export const readBodies = async (
  q: Queries,
  { account, mode }: Journal,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ row: string }[]>`
    SELECT ${storedRow(q)} AS row FROM unnest(${sqlArray(ids)}::uuid[]) WITH ORDINALITY AS wanted (event, place)
      JOIN read.event_journal ON id = event
     WHERE account = ${account} AND mode = ${mode} AND created_at > now() - ${SHOWN_FOR}::interval
     ORDER BY place`
  return rows.map(({ row }) => textOf(mode, row))
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
): Promise<ReadonlyArray<StoredEvent>> => {
  const rows = await q<StoredEvent[]>`
    SELECT id, sequence::float8 AS sequence, type, ${storedRow(q)} AS body FROM read.event_journal
     WHERE account = ${account} AND mode = ${mode} AND sequence > ${afterSequence}
       AND created_at <= ${createdUntil}
     ORDER BY read.event_journal.sequence LIMIT ${limit}`
  return rows.map((row) => ({ ...row, body: textOf(mode, row.body) }))
}

/** An event (UUID) of any journal; `null` without it. */
export const read = async (q: Queries, event: string): Promise<(StoredEvent & Journal) | null> => {
  const row = await firstRow(q<(StoredEvent & Journal)[]>`
    SELECT id, account, mode, sequence::float8 AS sequence, type, ${storedRow(q)} AS body FROM read.event_journal
     WHERE id = ${event} AND created_at > now() - ${SHOWN_FOR}::interval LIMIT 1`)
  return row === null ? null : { ...row, body: textOf(row.mode, row.body) }
}
