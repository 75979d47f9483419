/** `read.event_journal` and `read.event_heads`: the recorded events, and the last number of each journal. */
import { encodeId, type Mode } from '@hub/domain'
import { type Queries, sqlArray, uuidOf, WebhooksEndpoints } from '@hub/store'
import type { JournalHead, JournalKey } from '../store/projection-store.port.ts'

const nameOf = ({ account, mode }: JournalKey) => `${account} ${mode}`

/** `keys` and the result have UUIDs. */
const lockRows = async (q: Queries, keys: ReadonlyArray<JournalKey>) =>
  q<{ account: string; mode: Mode; sequence: string; last_at: Date }[]>`
    INSERT INTO read.event_heads (account, mode, sequence, last_at)
    SELECT k.account, k.mode::command.mode, 0, date_trunc('milliseconds', clock_timestamp())
      FROM unnest(${keys.map((k) => k.account)}::uuid[], ${keys.map((k) => k.mode)}::text[])
        AS k (account, mode)
     ORDER BY k.account, k.mode
    ON CONFLICT (account, mode) DO UPDATE
      SET last_at = greatest(read.event_heads.last_at, date_trunc('milliseconds', clock_timestamp()))
    RETURNING account, mode, sequence, last_at`

/**
 * Locks journal heads until the transaction ends, in the same order in every transaction. Events of
 * a journal therefore become visible in the order of their sequence numbers, and a reader that
 * follows them skips none.
 */
export const lockJournalHeads = async (
  q: Queries,
  keys: ReadonlyArray<JournalKey>,
): Promise<ReadonlyArray<JournalHead>> => {
  const journals = keys.map(({ account, mode }) => ({ account: uuidOf('acc', account), mode }))
  // The second statement begins when the first one has the locks. Only then does it see each
  // subscription whose creation the first one waited for
  // (docs/decisions/events.md#which-events-are-published).
  const [rows, subscribed] = await Promise.all([
    lockRows(q, journals),
    WebhooksEndpoints.findSubscribedJournals(q, journals),
  ])
  const names = new Set(subscribed.map(nameOf))
  return rows.map((row) => ({
    account: encodeId('acc', row.account),
    mode: row.mode,
    sequence: Number(row.sequence),
    recordedAt: row.last_at.getTime(),
    subscribed: names.has(nameOf(row)),
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
           SELECT id FROM read.event_journal WHERE id = w.id AND created_at >= ${new Date(since)} LIMIT 1) AS e`
  return new Set(rows.map((row) => encodeId('evt', row.id)))
}

export const updateJournalHeads = (
  q: Queries,
  heads: ReadonlyArray<JournalKey & { readonly sequence: number }>,
) => q`
  UPDATE read.event_heads h SET sequence = w.sequence
    FROM unnest(${heads.map((h) => uuidOf('acc', h.account))}::uuid[], ${heads.map((h) => h.mode)}::text[],
                ${heads.map((h) => h.sequence)}::bigint[]) AS w (account, mode, sequence)
   WHERE h.account = w.account AND h.mode = w.mode::command.mode`
