/**
 * What the topics know better than a database that was restored from a backup: where the journals of events had come to, which references were
 * used, what was spent. See docs/operating.md, Backup and restore.
 */
import { Duration, Effect } from 'effect'
import { Sql, type StorageError } from './sql.ts'

/** An event as it was recorded and published. Ids are UUIDs. */
export interface PublishedEvent {
  readonly account: string
  readonly mode: 'live' | 'test'
  /** Its place in the journal of account and mode, from 1. */
  readonly sequence: number
  readonly id: string
  readonly type: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  /** The event's JSON text exactly as it was served. */
  readonly body: string
}

/** Never in JSON text, which escapes it. */
const SEPARATOR = '\u001e'

const journalOf = ({ account, mode }: Pick<PublishedEvent, 'account' | 'mode'>): string =>
  `${account} ${mode}`

/**
 * Puts published events back to their old places behind the ends of their journals; what a journal has already is left out, and so is
 * everything behind a place that is missing. Events of a journal come in the order of their places. Nobody else may record events meanwhile.
 * Succeeds with how many were put back and how many lie behind a missing place.
 */
export const restoreEvents = (
  events: ReadonlyArray<PublishedEvent>,
): Effect.Effect<{ readonly restored: number; readonly stranded: number }, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (tx) => {
      const journals = [...new Map(events.map((event) => [journalOf(event), event])).values()].toSorted(
        (a, b) => (journalOf(a) < journalOf(b) ? -1 : 1),
      )
      const heads = await tx<{ account: string; mode: 'live' | 'test'; sequence: string }[]>`
        INSERT INTO read.event_heads (account, mode, sequence, last_at)
        SELECT account, mode::command.mode, 0, to_timestamp(0)
          FROM unnest(${journals.map(({ account }) => account)}::uuid[], ${journals.map(({ mode }) => mode)}::text[]) AS j (account, mode)
        ON CONFLICT (account, mode) DO UPDATE SET sequence = read.event_heads.sequence
        RETURNING account, mode, sequence`
      const ends = new Map(heads.map((head) => [journalOf(head), Number(head.sequence)]))
      const next: Array<PublishedEvent> = []
      let stranded = 0
      for (const event of events) {
        const end = ends.get(journalOf(event)) ?? 0
        if (event.sequence <= end) continue
        if (event.sequence > end + 1) {
          stranded += 1
          continue
        }
        ends.set(journalOf(event), event.sequence)
        next.push(event)
      }
      if (next.length === 0) return { restored: 0, stranded }
      await tx`
        INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
        SELECT account, mode::command.mode, sequence, id, type, created_at, body
          FROM unnest(${next.map(({ account }) => account)}::uuid[], ${next.map(({ mode }) => mode)}::text[],
                      ${next.map(({ sequence }) => sequence)}::bigint[], ${next.map(({ id }) => id)}::uuid[],
                      ${next.map(({ type }) => type)}::text[],
                      ${next.map(({ createdAt }) => new Date(createdAt).toISOString())}::timestamptz[],
                      string_to_array(${next.map(({ body }) => body).join(SEPARATOR)}, ${SEPARATOR}))
            AS e (account, mode, sequence, id, type, created_at, body)`
      const last = new Map(next.map((event) => [journalOf(event), event]))
      await tx`
        UPDATE read.event_heads h SET sequence = e.sequence, last_at = greatest(h.last_at, e.last_at)
          FROM unnest(${[...last.values()].map(({ account }) => account)}::uuid[],
                      ${[...last.values()].map(({ mode }) => mode)}::text[],
                      ${[...last.values()].map(({ sequence }) => sequence)}::bigint[],
                      ${[...last.values()].map(({ createdAt }) => new Date(createdAt).toISOString())}::timestamptz[])
            AS e (account, mode, sequence, last_at)
         WHERE h.account = e.account AND h.mode = e.mode::command.mode`
      return { restored: next.length, stranded }
    }),
  )

/** Walks over a day of messages at most: what was accepted between a backup and its restore. */
const DEADLINE = { deadline: Duration.minutes(5) }

/**
 * Used references and spent money by what the read model has of messages accepted since a moment (ms since the epoch). To be done when the
 * projector has read to the end of the topics and nothing is accepted yet. Succeeds with how many references were missing, and how many
 * months of accounts were counted anew. Safe to repeat.
 */
export const restoreLedger = (
  since: number,
): Effect.Effect<{ readonly references: number; readonly periods: number }, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (tx) => {
      const from = new Date(since).toISOString()
      const references = await tx`
        INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
        SELECT account, mode, client_ref, id, created_at FROM read.messages
         WHERE id >= command.uuid_floor(${from}::timestamptz) AND account IS NOT NULL AND client_ref IS NOT NULL
        ON CONFLICT DO NOTHING`
      const periods = await tx`
        INSERT INTO command.spend_periods (account, period, spent)
        SELECT account, period, sum(CASE kind WHEN 'charge' THEN amount ELSE -amount END) FROM read.charges
         WHERE period >= date_trunc('month', ${from}::timestamptz AT TIME ZONE 'UTC')::date
         GROUP BY account, period
        ON CONFLICT (account, period) DO UPDATE SET spent = excluded.spent`
      return { references: references.count, periods: periods.count }
    }, DEADLINE),
  )
