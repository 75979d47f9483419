/**
 * The retention jobs, one or more for each row of the table in docs/security.md. Large tables are
 * partitioned by month or day, and a job drops partitions that are due. Before, it removes the rows
 * of other tables that depend on them (used references, batches of attempts) in small steps.
 * Queries hide expired data exactly on time; a job removes it later.
 *
 * - Recipient number and message text: `sealing_keys` (to the day), then `personal_data`.
 * - De-identified record, history, attempt logs: `messages`, `batches`, `events`, `deliveries`.
 * - Raw responses, inbound messages, requests: `sealing_keys`, `operator_ids`, and topic retention.
 * - Records of inbound messages: `inbound_messages`.
 * - Client addresses of the last uses of API keys: `client_addresses`.
 * - Hourly statistics, also by number range: `hourly_stats` (three years, as the messages that they count).
 * - Analytics detail: topic retention.
 * - Daily aggregates, charges and opt-outs: no job: they are kept.
 * - Idempotency keys: `idempotency_keys`.
 *
 * Also `ledger` (old days of the ledger), `erasures` (unfinished erasures) and `partitions`
 * (creates those of the next months). Source: docs/contract/retention.md; docs/security.md, Retention;
 * docs/decisions/retention.md.
 */
import { erasures } from '../erasure/erasure.ts'
import type { Queries } from '../sql.ts'
import { isProjected } from '../tables/read/messages.ts'
import { NIL_UUID, uuidFloor } from '../uuid.ts'
import { runEnded, type Job, ROWS_PER_STEP, type Step, stepOf } from './job.ts'
import { dropPartition, type TablePartition, partitionsOf, limitLockWait } from './partitions.ts'
import {
  ACCEPTANCE_AFTER_ID_MS,
  dayEnd,
  ledgerForcedCutoff,
  ledgerCutoff,
  monthEnd,
  operatorIdsCutoff,
  personalDataCutoff,
  recordsCutoff,
} from './periods.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** The oldest partition of a table, if it ended before a time. */
const oldest = async (
  q: Queries,
  table: string,
  before: number,
  endOf: (period: string) => number = monthEnd,
): Promise<TablePartition | null> => {
  const [first] = await partitionsOf(q, table)
  return first !== undefined && endOf(first.period) <= before ? first : null
}

/** Deletes the first rows of a table whose id (column `key`) is from before a time. */
const deleteOldIds = async (q: Queries, table: string, key: string, before: number): Promise<number> => {
  const rows = await q`
    DELETE FROM ${q(table)} WHERE ctid IN (
      SELECT ctid FROM ${q(table)} WHERE ${q(key)} < ${uuidFloor(before)} ORDER BY ${q(key)} LIMIT ${ROWS_PER_STEP})`
  return rows.count
}

/** Drops old months, one per step, then deletes old rows of the default partition. */
const dropMonths = async (q: Queries, table: string, before: number): Promise<Step> => {
  const month = await oldest(q, table, before)
  if (month === null) return stepOf(await deleteOldIds(q, `${table}_default`, 'message_id', before))
  await dropPartition(q, month.table)
  return { removed: 1, position: month.period }
}

const personalData: Job = {
  name: 'personal_data',
  everyMs: HOUR,
  // The payload keys are destroyed by then. Rows under the master key end with their month.
  step: (q, now) => dropMonths(q, 'read.personal_data', personalDataCutoff(now) - ACCEPTANCE_AFTER_ID_MS),
}

const operatorIds: Job = {
  name: 'operator_ids',
  everyMs: HOUR,
  step: (q, now) => dropMonths(q, 'read.operator_ids', operatorIdsCutoff(now)),
}

/**
 * Deletes the references (`client_ref`) of the next messages, and returns the id of the last
 * message. A reference that another message uses now stays.
 */
const deleteReferences = async (
  q: Queries,
  table: string,
  after: string,
  before: string | null,
): Promise<{ readonly deleted: number; readonly last: string | null }> => {
  const [row] = await q<{ deleted: string; last: string | null }[]>`
    WITH step AS MATERIALIZED (
      SELECT id, account, mode, client_ref FROM ${q(table)}
       WHERE id > ${after} AND (${before}::uuid IS NULL OR id < ${before}::uuid) ORDER BY id LIMIT ${ROWS_PER_STEP}),
    deleted AS (
      DELETE FROM command.client_refs c USING step s
       WHERE c.account = s.account AND c.mode = s.mode AND c.client_ref = s.client_ref AND c.message_id = s.id
      RETURNING 1)
    SELECT (SELECT count(*) FROM deleted) AS deleted, (SELECT id FROM step ORDER BY id DESC LIMIT 1) AS last`
  return { deleted: Number(row?.deleted ?? 0), last: row?.last ?? null }
}

const messages: Job = {
  name: 'messages',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const before = recordsCutoff(now) - ACCEPTANCE_AFTER_ID_MS
    const month = await oldest(q, 'read.messages', before)
    if (month !== null) {
      const { deleted, last } = await deleteReferences(q, month.table, position ?? NIL_UUID, null)
      if (last !== null) return { removed: deleted, position: last }
      await dropPartition(q, month.table)
      // Of `read.earlier_history`.
      await dropPartition(q, `read.message_history_${month.period}`)
      return { removed: deleted + 2, position: NIL_UUID }
    }
    // Rows of the default partition are deleted in the same step as their references.
    const end = uuidFloor(before)
    const { deleted, last } = await deleteReferences(q, 'read.messages_default', NIL_UUID, end)
    if (last === null) {
      const removed = await deleteOldIds(q, 'read.message_history_default', 'message_id', before)
      return removed === 0 ? runEnded() : { removed, position: NIL_UUID }
    }
    const rows = await q`DELETE FROM read.messages_default WHERE id <= ${last}`
    return { removed: deleted + rows.count, position: NIL_UUID }
  },
}

const batches: Job = {
  name: 'batches',
  everyMs: HOUR,
  step: async (q, now) => {
    const before = recordsCutoff(now)
    const read = await deleteOldIds(q, 'read.batches', 'id', before)
    return stepOf(read + (await deleteOldIds(q, 'command.batches', 'id', before)))
  },
}

const hourlyStats: Job = {
  name: 'hourly_stats',
  everyMs: HOUR,
  step: async (q, now) => {
    const before = new Date(recordsCutoff(now))
    let removed = 0
    for (const table of ['read.hourly_stats', 'read.range_stats']) {
      const rows = await q`
        DELETE FROM ${q(table)} WHERE ctid IN (
          SELECT ctid FROM ${q(table)} WHERE hour < ${before} ORDER BY hour LIMIT ${ROWS_PER_STEP})`
      removed += rows.count
    }
    return stepOf(removed)
  },
}

const clientAddresses: Job = {
  name: 'client_addresses',
  everyMs: HOUR,
  step: async (q, now) => {
    const rows = await q`
      UPDATE command.api_keys SET last_used_from = NULL WHERE id IN (
        SELECT id FROM command.api_keys
         WHERE last_used_from IS NOT NULL AND last_used_at < ${new Date(personalDataCutoff(now))}
         LIMIT ${ROWS_PER_STEP})`
    return stepOf(rows.count)
  },
}

const events: Job = {
  name: 'events',
  everyMs: HOUR,
  step: async (q, now) => {
    const before = recordsCutoff(now)
    const month = await oldest(q, 'read.event_journal', before)
    if (month !== null) {
      await dropPartition(q, month.table)
      return { removed: 1, position: month.period }
    }
    const rows = await q`
      DELETE FROM read.event_journal_default WHERE ctid IN (
        SELECT ctid FROM read.event_journal_default WHERE created_at < ${new Date(before)} LIMIT ${ROWS_PER_STEP})`
    return stepOf(rows.count)
  },
}

/** The key of an attempt: subscription and attempt. */
type AttemptKey = readonly [subscriptionId: string, id: string]

/** Deletes the batch events of the next attempts. Every batch that has ended has an attempt. */
const clearDeliveries = async (
  q: Queries,
  table: string,
  [subscriptionId, id]: AttemptKey,
  before: string | null,
): Promise<{ readonly removed: number; readonly last: AttemptKey | null }> => {
  const rows = await q<{ endpoint_id: string; id: string; batch_id: string }[]>`
    SELECT endpoint_id, id, batch_id FROM ${q(table)}
     WHERE (endpoint_id, id) > (${subscriptionId}, ${id}) AND (${before}::uuid IS NULL OR id < ${before}::uuid)
     ORDER BY endpoint_id, id LIMIT ${ROWS_PER_STEP}`
  const last = rows.at(-1)
  if (last === undefined) return { removed: 0, last: null }
  const asked = [...new Set(rows.map((row) => row.batch_id))]
  // Batches that wait for delivery stay, however old they are.
  const pending = await q<{ id: string }[]>`
    SELECT id FROM webhooks.batches WHERE id = ANY (${asked}::uuid[])`
  const pendingIds = new Set(pending.map((row) => row.id))
  const ended = asked.filter((id) => !pendingIds.has(id))
  const events = await q`DELETE FROM webhooks.batch_events WHERE batch_id = ANY (${ended}::uuid[])`
  return { removed: events.count, last: [last.endpoint_id, last.id] }
}

const deliveries: Job = {
  name: 'deliveries',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const before = recordsCutoff(now)
    const month = await oldest(q, 'webhooks.attempts', before)
    if (month !== null) {
      const [subscriptionId = NIL_UUID, id = NIL_UUID] = position?.split(' ') ?? []
      const { last, removed } = await clearDeliveries(q, month.table, [subscriptionId, id], null)
      if (last !== null) return { removed, position: last.join(' ') }
      await dropPartition(q, month.table)
      return { removed: removed + 1, position: NIL_UUID }
    }
    const table = 'webhooks.attempts_default'
    const floor = uuidFloor(before)
    const { last, removed } = await clearDeliveries(q, table, [NIL_UUID, NIL_UUID], floor)
    if (last === null) {
      const old = await q`DELETE FROM webhooks.redeliveries WHERE finished_at < ${new Date(before)}`
      return runEnded(old.count)
    }
    const rows = await q`
      DELETE FROM ${q(table)} WHERE (endpoint_id, id) <= (${last[0]}, ${last[1]}) AND id < ${floor}`
    return { removed: removed + rows.count, position: NIL_UUID }
  },
}

const inboundMessages: Job = {
  name: 'inbound_messages',
  everyMs: HOUR,
  step: async (q, now) => {
    const deleted = await q`
      DELETE FROM command.inbound_messages WHERE id IN (
        SELECT id FROM command.inbound_messages WHERE received_at < ${new Date(recordsCutoff(now))}
         ORDER BY received_at LIMIT ${ROWS_PER_STEP})`
    // Their keys are destroyed by then.
    const cleared = await q`
      UPDATE command.inbound_messages SET sealing_key = NULL, sealed = NULL WHERE id IN (
        SELECT id FROM command.inbound_messages
         WHERE received_at < ${new Date(personalDataCutoff(now))} AND sealed IS NOT NULL
         ORDER BY received_at LIMIT ${ROWS_PER_STEP})`
    return stepOf(deleted.count + cleared.count)
  },
}

const idempotencyKeys: Job = {
  name: 'idempotency_keys',
  everyMs: MINUTE,
  step: async (q, now) => {
    const rows = await q`
      DELETE FROM command.idempotency_keys WHERE (account, mode, key) IN (
        SELECT account, mode, key FROM command.idempotency_keys WHERE expires_at < ${new Date(now)}
         ORDER BY expires_at LIMIT ${ROWS_PER_STEP} FOR UPDATE SKIP LOCKED)`
    return stepOf(rows.count)
  },
}

const payloadKeys: Job = {
  name: 'sealing_keys',
  // Keys of codes live for minutes, so a longer interval would keep them noticeably longer.
  everyMs: MINUTE,
  step: async (q, now) => {
    const rows = await q`
      DELETE FROM command.sealing_keys WHERE id IN (
        SELECT id FROM command.sealing_keys WHERE destroy_after <= ${new Date(now)} LIMIT ${ROWS_PER_STEP})`
    return stepOf(rows.count)
  },
}

/**
 * Deletes references of refunded codes among the next acceptances of a day. `open`: how many are
 * neither projected nor refunded.
 */
const settleAcceptances = async (q: Queries, table: string, after: string, before: string | null) => {
  const [row] = await q<{ open: string; deleted: string; last: string | null }[]>`
    WITH step AS MATERIALIZED (
      SELECT message_id, account, mode, client_ref, given_back FROM ${q(table)}
       WHERE message_id > ${after} AND (${before}::uuid IS NULL OR message_id < ${before}::uuid)
       ORDER BY message_id LIMIT ${ROWS_PER_STEP}),
    missing AS MATERIALIZED (
      SELECT s.* FROM step s
       WHERE NOT ${isProjected(q, 's.message_id')}),
    deleted AS (
      DELETE FROM command.client_refs c USING missing s
       WHERE s.given_back AND c.account = s.account AND c.mode = s.mode AND c.client_ref = s.client_ref
         AND c.message_id = s.message_id
      RETURNING 1)
    SELECT (SELECT count(*) FROM missing WHERE NOT given_back) AS open, (SELECT count(*) FROM deleted) AS deleted,
           (SELECT message_id FROM step ORDER BY message_id DESC LIMIT 1) AS last`
  return { open: Number(row?.open ?? 0), deleted: Number(row?.deleted ?? 0), last: row?.last ?? null }
}

const ledger: Job = {
  name: 'ledger',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const day = await oldest(q, 'command.acceptances', ledgerCutoff(now), dayEnd)
    const isForced = day !== null && dayEnd(day.period) <= ledgerForcedCutoff(now)
    if (day !== null) {
      const { deleted, last, open } = await settleAcceptances(q, day.table, position ?? NIL_UUID, null)
      if (open > 0 && !isForced) return { removed: deleted, position: null, held: 'not_projected' }
      if (last !== null) return { removed: deleted, position: last }
      await dropPartition(q, day.table)
      return { removed: deleted + 1, position: NIL_UUID }
    }
    const table = 'command.acceptances_default'
    for (const before of [ledgerForcedCutoff(now), ledgerCutoff(now)]) {
      const { deleted, last, open } = await settleAcceptances(q, table, NIL_UUID, uuidFloor(before))
      if (last === null) continue
      if (open > 0 && before !== ledgerForcedCutoff(now)) {
        return { removed: deleted, position: null, held: 'not_projected' }
      }
      const rows = await q`DELETE FROM command.acceptances_default WHERE message_id <= ${last}`
      return { removed: deleted + rows.count, position: NIL_UUID }
    }
    return runEnded()
  },
}

/** Monthly partitions to create in advance. */
const MONTHS_AHEAD = 2
const MONTHLY = [
  'read.messages',
  'read.personal_data',
  'read.operator_ids',
  'read.event_journal',
  'webhooks.attempts',
] as const

const partitions: Job = {
  name: 'partitions',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const index = position === null ? 0 : Number(position)
    const table = MONTHLY[index]
    if (table === undefined) return runEnded()
    await limitLockWait(q)
    await q`SELECT command.ensure_months(${table}, ${new Date(now)}, ${MONTHS_AHEAD + 1})`
    return { removed: 0, position: String(index + 1) }
  },
}

export const RETENTION_JOBS: ReadonlyArray<Job> = [
  payloadKeys,
  personalData,
  messages,
  batches,
  hourlyStats,
  clientAddresses,
  events,
  deliveries,
  operatorIds,
  inboundMessages,
  idempotencyKeys,
  ledger,
  erasures,
  partitions,
]
