/** `read.events` and `read.event_heads`: the event journals, and their last sequence numbers. */
import { encodeId, type Mode, toTimestamp } from '@hub/domain'
import { type Queries, sqlArray, uuidOf } from '@hub/store'
import { accountUuid } from './read-schema.ts'

export interface JournalKey {
  readonly account: string
  readonly mode: Mode
}

export interface JournalHead extends JournalKey {
  /** The sequence number of the last event; 0 for an empty journal. */
  readonly sequence: number
  /** The time of recording for the next events: never earlier than that of the last event. */
  readonly recordedAt: number
}

/**
 * Locks journal heads until the transaction ends, in the same order in every transaction. Events of
 * a journal therefore become visible in the order of their sequence numbers, and a reader that
 * follows them skips none.
 */
export const lockJournalHeads = async (
  q: Queries,
  keys: ReadonlyArray<JournalKey>,
): Promise<ReadonlyArray<JournalHead>> => {
  const rows = await q<{ account: string; mode: Mode; sequence: string; last_at: Date }[]>`
    INSERT INTO read.event_heads (account, mode, sequence, last_at)
    SELECT k.account, k.mode::command.mode, 0, date_trunc('milliseconds', clock_timestamp())
      FROM unnest(${keys.map((k) => accountUuid(k.account))}::uuid[], ${keys.map((k) => k.mode)}::text[])
        AS k (account, mode)
     ORDER BY k.account, k.mode
    ON CONFLICT (account, mode) DO UPDATE
      SET last_at = greatest(read.event_heads.last_at, date_trunc('milliseconds', clock_timestamp()))
    RETURNING account, mode, sequence, last_at`
  return rows.map((row) => ({
    account: encodeId('acc', row.account),
    mode: row.mode,
    sequence: Number(row.sequence),
    recordedAt: row.last_at.getTime(),
  }))
}

/**
 * The ids (`evt_…`) that are recorded already. Call it after `lockJournalHeads`. None was recorded
 * before `since` (ms), so earlier partitions are not read.
 */
export const findRecordedEvents = async (
  q: Queries,
  eventIds: ReadonlyArray<string>,
  since: number,
): Promise<ReadonlySet<string>> => {
  const rows = await q<{ id: string }[]>`
    SELECT e.id FROM unnest(${sqlArray(eventIds.map((id) => uuidOf('evt', id)))}::uuid[]) AS w (id)
     CROSS JOIN LATERAL (
           SELECT id FROM read.events WHERE id = w.id AND created_at >= ${new Date(since)} LIMIT 1) AS e`
  return new Set(rows.map((row) => encodeId('evt', row.id)))
}

/** An event with its position in the journal. */
export interface RecordedEvent extends JournalKey {
  readonly id: string
  readonly type: string
  readonly sequence: number
  readonly recordedAt: number
  /** The JSON text of the event, byte for byte as clients receive it. */
  readonly body: string
}

/** JSON escapes this character, so bodies can be joined by it, without an array of quotes. */
const SEPARATOR = '\u001e'

export const writeEvents = (q: Queries, events: ReadonlyArray<RecordedEvent>) => q`
  INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
  SELECT account, mode::command.mode, sequence, id, type, created_at, body
    FROM unnest(${sqlArray(events.map((e) => accountUuid(e.account)))}::uuid[],
                ${sqlArray(events.map((e) => e.mode))}::text[],
                ${sqlArray(events.map((e) => e.sequence))}::bigint[],
                ${sqlArray(events.map((e) => uuidOf('evt', e.id)))}::uuid[],
                ${sqlArray(events.map((e) => e.type))}::text[],
                ${sqlArray(events.map((e) => toTimestamp(e.recordedAt)))}::timestamptz[],
                string_to_array(${events.map((e) => e.body).join(SEPARATOR)}, ${SEPARATOR}))
      AS e (account, mode, sequence, id, type, created_at, body)`

export const updateJournalHeads = (
  q: Queries,
  heads: ReadonlyArray<JournalKey & { readonly sequence: number }>,
) => q`
  UPDATE read.event_heads h SET sequence = w.sequence
    FROM unnest(${heads.map((h) => accountUuid(h.account))}::uuid[], ${heads.map((h) => h.mode)}::text[],
                ${heads.map((h) => h.sequence)}::bigint[]) AS w (account, mode, sequence)
   WHERE h.account = w.account AND h.mode = w.mode::command.mode`
