/**
 * Makes the events `recipient.opted_out` and `recipient.opted_in` from the record of opt-outs, for
 * the accounts that wrote to the number in the last 90 days. Source: OPT-5, OPT-6.
 */
import { encodeId, type Mode, optOutChanged } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { JournalEntry } from '../messages/fold.ts'
import type { TakenEntries } from '../store/projection-store.port.ts'

/** Changes of one transaction. Each is a look-up of the messages of one recipient. */
const CHANGES_PER_TRANSACTION = 100

/** Who wrote to a recipient longer ago has no interest in the change. */
const WROTE_WITHIN = '90 days'
/** The age of a message's id beside its acceptance: see `ACCEPTANCE_AFTER_ID_MS` of the store. */
const ID_BEFORE = '31 days'

interface ChangeRow {
  readonly id: string
  readonly change_id: string
  readonly recipient: string
  readonly change: 'opted_out' | 'opted_in'
}

/** The account and mode that wrote to a recipient, and its last message (UUIDs). */
interface WriterRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly message: string
}

export const hasOptOutEvents = async (q: Queries): Promise<boolean> =>
  (await q`SELECT FROM command.opt_out_history WHERE announced_at IS NULL LIMIT 1`).count > 0

/** The next changes without events, in order. One caller at a time gets them: else none. */
const lockChanges = (q: Queries) => q<ChangeRow[]>`
  SELECT id, change_id, encode(recipient, 'hex') AS recipient, change
    FROM (SELECT pg_try_advisory_xact_lock(hashtext('command.opt_out_history')) AS taken OFFSET 0) AS turn
   CROSS JOIN LATERAL (
         SELECT * FROM command.opt_out_history WHERE announced_at IS NULL AND turn.taken
          ORDER BY id LIMIT ${CHANGES_PER_TRANSACTION}) AS waiting
   ORDER BY id`

/**
 * The writers of changes. The numbers of messages are in `read.personal_data`, so an erased
 * recipient has none.
 */
const findWriters = (q: Queries, ids: ReadonlyArray<string>) => q<WriterRow[]>`
  SELECT DISTINCT ON (h.id, m.account, m.mode) h.id, m.account, m.mode, m.id AS message
    FROM command.opt_out_history h
   CROSS JOIN LATERAL (
         SELECT message_id FROM read.personal_data
          WHERE recipient = h.recipient
            AND message_id > command.uuid_floor(now() - ${WROTE_WITHIN}::interval - ${ID_BEFORE}::interval)) AS p
   CROSS JOIN LATERAL (
         SELECT id, account, mode, created_at FROM read.messages
          WHERE id = p.message_id AND account IS NOT NULL AND created_at > h.at - ${WROTE_WITHIN}::interval
          LIMIT 1) AS m
   WHERE h.id = ANY (${[...ids]}::bigint[])
   ORDER BY h.id, m.account, m.mode, m.created_at DESC, m.id DESC`

export const takeOptOutEvents = async (q: Queries): Promise<TakenEntries> => {
  const changes = await lockChanges(q)
  if (changes.length === 0) return { entries: [], isFull: false }
  const ids = changes.map(({ id }) => id)
  const writers = await findWriters(q, ids)
  await q`UPDATE command.opt_out_history SET announced_at = now() WHERE id = ANY (${ids}::bigint[])`
  const byId = new Map(changes.map((change) => [change.id, change]))
  const entries = writers.flatMap(({ id, message, mode, ...writer }): ReadonlyArray<JournalEntry> => {
    const found = byId.get(id)
    if (found === undefined) return []
    const account = encodeId('acc', writer.account)
    const { change, change_id: changeId, recipient } = found
    const event = optOutChanged(account, mode, {
      changeId,
      change,
      recipient,
      message: encodeId('msg', message),
    })
    return [{ account, mode, event }]
  })
  return { entries, isFull: changes.length === CHANGES_PER_TRANSACTION }
}
