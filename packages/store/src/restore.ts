/**
 * Repairs a database after its restore from a backup, from records that Kafka still has: the event
 * journals, the used references and the spend of the months. See docs/operating.md.
 */
import { Duration, Effect } from 'effect'
import { Sql, type StorageError } from './sql.ts'
import { insert, type JournalEvent } from './tables/read/events.ts'
import { isProjected } from './tables/read/messages.ts'

const journalOf = ({ account, mode }: Pick<JournalEvent, 'account' | 'mode'>): string => `${account} ${mode}`

/**
 * Appends published events to their journals, with their old sequence numbers. Skips events that a
 * journal has, and events after a gap: only events of accounts with a subscription are published,
 * so a gap is a time without one. No other process may record events meanwhile. Returns the numbers of restored
 * events and of events after a gap. The events before a gap may come in a later call: then repeat this one.
 */
export const restoreEvents = (
  events: ReadonlyArray<JournalEvent>,
): Effect.Effect<{ readonly restored: number; readonly afterGap: number }, StorageError, Sql> =>
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
      const next: Array<JournalEvent> = []
      let afterGap = 0
      // A relay of the outbox publishes events behind later ones.
      for (const event of events.toSorted((a, b) => a.sequence - b.sequence)) {
        const end = ends.get(journalOf(event)) ?? 0
        if (event.sequence <= end) continue
        if (event.sequence > end + 1) {
          afterGap += 1
          continue
        }
        ends.set(journalOf(event), event.sequence)
        next.push(event)
      }
      if (next.length === 0) return { restored: 0, afterGap }
      await insert(tx, next)
      const last = new Map(next.map((event) => [journalOf(event), event]))
      await tx`
        UPDATE read.event_heads h SET sequence = e.sequence, last_at = greatest(h.last_at, e.last_at)
          FROM unnest(${[...last.values()].map(({ account }) => account)}::uuid[],
                      ${[...last.values()].map(({ mode }) => mode)}::text[],
                      ${[...last.values()].map(({ sequence }) => sequence)}::bigint[],
                      ${[...last.values()].map(({ createdAt }) => new Date(createdAt).toISOString())}::timestamptz[])
            AS e (account, mode, sequence, last_at)
         WHERE h.account = e.account AND h.mode = e.mode::command.mode`
      return { restored: next.length, afterGap }
    }),
  )

/** Enough for the messages of a day: those accepted between a backup and its restore. */
const DEADLINE = { deadline: Duration.minutes(5) }

/**
 * Restores used references and the spend from the read models, for messages accepted since a time
 * (ms since the epoch). Call it when the projector has reached the end of the topics and
 * command-api accepts nothing yet. Returns the numbers of restored references and of recalculated
 * spend periods. Safe to repeat.
 *
 * The ledger of acceptances is as old as the backup. The reconciler of command-api still corrects its
 * rows afterwards, so the spend is what the reconciler expects: the charges, plus acceptances that the read
 * model does not contain yet. A refunded acceptance that the read model contains is charged here,
 * otherwise the reconciler would charge it a second time.
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
      const months = tx`date_trunc('month', ${from}::timestamptz AT TIME ZONE 'UTC')`
      const firstId = tx`command.uuid_floor(${months} AT TIME ZONE 'UTC')`
      await tx`
        UPDATE command.acceptances a SET given_back = false
         WHERE a.given_back AND a.message_id >= ${firstId} AND ${isProjected(tx, 'a.message_id')}`
      const periods = await tx`
        INSERT INTO command.spend_periods (account, period, spent)
        SELECT account, period, sum(amount) FROM (
          SELECT account, period, CASE kind WHEN 'charge' THEN amount ELSE -amount END AS amount
            FROM read.charges WHERE period >= ${months}::date
          UNION ALL
          SELECT a.account, date_trunc('month', a.created_at AT TIME ZONE 'UTC')::date, a.price
            FROM command.acceptances a
           WHERE a.mode = 'live' AND NOT a.given_back AND a.message_id >= ${firstId}
             AND NOT ${isProjected(tx, 'a.message_id')}) AS spending
         GROUP BY account, period
        ON CONFLICT (account, period) DO UPDATE SET spent = excluded.spent`
      return { references: references.count, periods: periods.count }
    }, DEADLINE),
  )
