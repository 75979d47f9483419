/**
 * The jobs of retention, one or more for each row of the specification's table. Large tables are in months or days, and what is due is dropped
 * with its partition; what lives elsewhere and hangs on it (a used `client_ref`, the batches behind attempts) is walked to first, in small
 * steps. What an endpoint no longer shows is decided where it is read, to the moment; here it is a matter of when it is gone.
 *
 * | row of the table                            | job                                                                      |
 * | ------------------------------------------- | ------------------------------------------------------------------------ |
 * | recipient number and message text           | `sealing_keys` (to the day), then `personal_data`                        |
 * | de-identified record, history, attempt logs | `messages`, `batches`, `events`, `deliveries`                            |
 * | raw responses, inbound, requests            | `sealing_keys`, `operator_ids`; the topics by their own retention        |
 * | analytics detail                            | the topics by their own retention                                        |
 * | analytics daily aggregates, charges, opt-outs | none: `read.daily_stats`, `read.charges`, `command.opt_outs` stay      |
 * | idempotency keys                            | `idempotency_keys`                                                       |
 *
 * Beside them `ledger` (days of the ledger), `erasures` (what was begun and is not finished) and `partitions` (room for what comes). Source: specification, Retention and data handling;
 * docs/decisions/0018.
 */
import { erasures } from '../erasure/index.ts'
import type { Queries } from '../sql.ts'
import { done, type Job, ROWS_A_STEP, type Step } from './job.ts'
import { drop, type Partition, partitionsOf, patiently } from './partitions.ts'
import {
  ACCEPTANCE_AFTER_ID_MS,
  dayEnd,
  ledgerHeldSince,
  ledgerSince,
  monthEnd,
  operatorIdsCutoff,
  personalDataCutoff,
  recordsCutoff,
} from './periods.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** The smallest UUID: before every id. */
const NIL = '00000000-0000-0000-0000-000000000000'

/** The oldest partition of a table that ended before a moment. */
const oldest = async (
  q: Queries,
  table: string,
  before: number,
  endOf: (period: string) => number = monthEnd,
): Promise<Partition | null> => {
  const [first] = await partitionsOf(q, table)
  return first !== undefined && endOf(first.period) <= before ? first : null
}

/** Deletes rows of the default partition, where rows lie for which nobody had made room, by the id that they begin with. */
const clearDefault = async (q: Queries, table: string, key: string, before: number): Promise<number> => {
  const rows = await q`
    DELETE FROM ${q(`${table}_default`)} WHERE ctid IN (
      SELECT ctid FROM ${q(`${table}_default`)} WHERE ${q(key)} < command.uuid_floor(${new Date(before)})
       ORDER BY ${q(key)} LIMIT ${ROWS_A_STEP})`
  return rows.count
}

/** Drops the months of a table that ended before a moment, one a step; then what is as old in the default partition. */
const dropMonths = async (q: Queries, table: string, key: string, before: number): Promise<Step> => {
  const month = await oldest(q, table, before)
  if (month !== null) {
    await drop(q, month.table)
    return { removed: 1, position: month.period }
  }
  const removed = await clearDefault(q, table, key, before)
  return { removed, position: removed === 0 ? null : 'default' }
}

const personalData: Job = {
  name: 'personal_data',
  everyMs: HOUR,
  // The keys of the days are gone by then. What is under the master key, as rows were once, goes with its month.
  step: (q, now) =>
    dropMonths(q, 'read.personal_data', 'message_id', personalDataCutoff(now) - ACCEPTANCE_AFTER_ID_MS),
}

const operatorIds: Job = {
  name: 'operator_ids',
  everyMs: HOUR,
  step: (q, now) => dropMonths(q, 'read.operator_ids', 'message_id', operatorIdsCutoff(now)),
}

/**
 * Frees the `client_ref`s of a stretch of messages, and tells its last id. A reference that has been used anew since is another
 * message's, and stays.
 */
const freeReferences = async (
  q: Queries,
  table: string,
  after: string,
  before: string | null,
): Promise<{ readonly freed: number; readonly last: string | null }> => {
  const [row] = await q<{ freed: string; last: string | null }[]>`
    WITH stretch AS MATERIALIZED (
      SELECT id, account, mode, client_ref FROM ${q(table)}
       WHERE id > ${after} AND (${before}::uuid IS NULL OR id < ${before}::uuid) ORDER BY id LIMIT ${ROWS_A_STEP}),
    freed AS (
      DELETE FROM command.client_refs c USING stretch s
       WHERE c.account = s.account AND c.mode = s.mode AND c.client_ref = s.client_ref AND c.message_id = s.id
      RETURNING 1)
    SELECT (SELECT count(*) FROM freed) AS freed, (SELECT id FROM stretch ORDER BY id DESC LIMIT 1) AS last`
  return { freed: Number(row?.freed ?? 0), last: row?.last ?? null }
}

const floorOf = async (q: Queries, at: number): Promise<string> => {
  const [row] = await q<{ id: string }[]>`SELECT command.uuid_floor(${new Date(at)}) AS id`
  return row?.id ?? NIL
}

const messages: Job = {
  name: 'messages',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const before = recordsCutoff(now) - ACCEPTANCE_AFTER_ID_MS
    const month = await oldest(q, 'read.messages', before)
    if (month !== null) {
      const { freed, last } = await freeReferences(q, month.table, position ?? NIL, null)
      if (last !== null) return { removed: freed, position: last }
      await drop(q, month.table)
      await drop(q, `read.message_history_${month.period}`)
      return { removed: freed + 2, position: NIL }
    }
    // Nothing of the default partition is in the way of a drop, so what was walked over is deleted at once.
    const { freed, last } = await freeReferences(q, 'read.messages_default', NIL, await floorOf(q, before))
    if (last === null) return done()
    const history = await q`DELETE FROM read.message_history_default WHERE message_id <= ${last}`
    const rows = await q`DELETE FROM read.messages_default WHERE id <= ${last}`
    return { removed: freed + history.count + rows.count, position: NIL }
  },
}

/** Ids of batches begin with their moment. */
const deleteBatches = async (q: Queries, table: string, before: string): Promise<number> => {
  const rows = await q`
    DELETE FROM ${q(table)} WHERE id IN (
      SELECT id FROM ${q(table)} WHERE id < ${before} ORDER BY id LIMIT ${ROWS_A_STEP})`
  return rows.count
}

const batches: Job = {
  name: 'batches',
  everyMs: HOUR,
  step: async (q, now) => {
    const before = await floorOf(q, recordsCutoff(now))
    const read = await deleteBatches(q, 'read.batches', before)
    const command = await deleteBatches(q, 'command.batches', before)
    return { removed: read + command, position: read + command === 0 ? null : 'more' }
  },
}

const events: Job = {
  name: 'events',
  everyMs: HOUR,
  step: async (q, now) => {
    const before = recordsCutoff(now)
    const month = await oldest(q, 'read.events', before)
    if (month !== null) {
      await drop(q, month.table)
      return { removed: 1, position: month.period }
    }
    const rows = await q`
      DELETE FROM read.events_default WHERE ctid IN (
        SELECT ctid FROM read.events_default WHERE created_at < ${new Date(before)} LIMIT ${ROWS_A_STEP})`
    return { removed: rows.count, position: rows.count === 0 ? null : 'default' }
  },
}

/** A place among attempts, in the order of their key: subscription and attempt. */
type AttemptPlace = readonly [endpoint: string, id: string]

/** What is known of the events of a stretch of attempts: every batch that has ended has an attempt. */
const clearDeliveries = async (
  q: Queries,
  table: string,
  [endpoint, id]: AttemptPlace,
  before: string | null,
): Promise<{ readonly removed: number; readonly last: AttemptPlace | null }> => {
  const rows = await q<{ endpoint_id: string; id: string; batch_id: string }[]>`
    SELECT endpoint_id, id, batch_id FROM ${q(table)}
     WHERE (endpoint_id, id) > (${endpoint}, ${id}) AND (${before}::uuid IS NULL OR id < ${before}::uuid)
     ORDER BY endpoint_id, id LIMIT ${ROWS_A_STEP}`
  const last = rows.at(-1)
  if (last === undefined) return { removed: 0, last: null }
  const asked = [...new Set(rows.map((row) => row.batch_id))]
  // What still waits to be delivered is not removed, however old.
  const waiting = await q<{ id: string }[]>`
    SELECT id FROM webhooks.batches WHERE id = ANY (${asked}::uuid[])`
  const kept = new Set(waiting.map((row) => row.id))
  const ended = asked.filter((id) => !kept.has(id))
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
      const [endpoint = NIL, id = NIL] = position?.split(' ') ?? []
      const { last, removed } = await clearDeliveries(q, month.table, [endpoint, id], null)
      if (last !== null) return { removed, position: last.join(' ') }
      await drop(q, month.table)
      return { removed: removed + 1, position: NIL }
    }
    const table = 'webhooks.attempts_default'
    const floor = await floorOf(q, before)
    const { last, removed } = await clearDeliveries(q, table, [NIL, NIL], floor)
    if (last === null) {
      const old = await q`DELETE FROM webhooks.redeliveries WHERE finished_at < ${new Date(before)}`
      return done(old.count)
    }
    const rows = await q`
      DELETE FROM ${q(table)} WHERE (endpoint_id, id) <= (${last[0]}, ${last[1]}) AND id < ${floor}`
    return { removed: removed + rows.count, position: NIL }
  },
}

const idempotencyKeys: Job = {
  name: 'idempotency_keys',
  everyMs: MINUTE,
  step: async (q, now) => {
    const rows = await q`
      DELETE FROM command.idempotency_keys WHERE (account, mode, key) IN (
        SELECT account, mode, key FROM command.idempotency_keys WHERE expires_at < ${new Date(now)}
         ORDER BY expires_at LIMIT ${ROWS_A_STEP} FOR UPDATE SKIP LOCKED)`
    return { removed: rows.count, position: rows.count === 0 ? null : 'more' }
  },
}

const sealingKeys: Job = {
  name: 'sealing_keys',
  // Keys of codes live for minutes, so this decides how long one may linger.
  everyMs: MINUTE,
  step: async (q, now) => {
    const rows = await q`
      DELETE FROM command.sealing_keys WHERE id IN (
        SELECT id FROM command.sealing_keys WHERE destroy_after <= ${new Date(now)} LIMIT ${ROWS_A_STEP})`
    return { removed: rows.count, position: rows.count === 0 ? null : 'more' }
  },
}

/**
 * A stretch of a day of the ledger: whether something of it is in no read model and was not given back either, and how many references of
 * codes that were never accepted are free again.
 */
const settleAcceptances = async (q: Queries, table: string, after: string, before: string | null) => {
  const [row] = await q<{ open: string; freed: string; last: string | null }[]>`
    WITH stretch AS MATERIALIZED (
      SELECT message_id, account, mode, client_ref, given_back FROM ${q(table)}
       WHERE message_id > ${after} AND (${before}::uuid IS NULL OR message_id < ${before}::uuid)
       ORDER BY message_id LIMIT ${ROWS_A_STEP}),
    missing AS MATERIALIZED (
      SELECT s.* FROM stretch s
       WHERE NOT coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = s.message_id), false)),
    freed AS (
      DELETE FROM command.client_refs c USING missing s
       WHERE s.given_back AND c.account = s.account AND c.mode = s.mode AND c.client_ref = s.client_ref
         AND c.message_id = s.message_id
      RETURNING 1)
    SELECT (SELECT count(*) FROM missing WHERE NOT given_back) AS open, (SELECT count(*) FROM freed) AS freed,
           (SELECT message_id FROM stretch ORDER BY message_id DESC LIMIT 1) AS last`
  return { open: Number(row?.open ?? 0), freed: Number(row?.freed ?? 0), last: row?.last ?? null }
}

const ledger: Job = {
  name: 'ledger',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const day = await oldest(q, 'command.acceptances', ledgerSince(now), dayEnd)
    const isForced = day !== null && dayEnd(day.period) <= ledgerHeldSince(now)
    if (day !== null) {
      const { freed, last, open } = await settleAcceptances(q, day.table, position ?? NIL, null)
      if (open > 0 && !isForced) return { removed: freed, position: null, held: 'not_projected' }
      if (last !== null) return { removed: freed, position: last }
      await drop(q, day.table)
      return { removed: freed + 1, position: NIL }
    }
    const table = 'command.acceptances_default'
    for (const before of [ledgerHeldSince(now), ledgerSince(now)]) {
      const { freed, last, open } = await settleAcceptances(q, table, NIL, await floorOf(q, before))
      if (last === null) continue
      if (open > 0 && before !== ledgerHeldSince(now)) {
        return { removed: freed, position: null, held: 'not_projected' }
      }
      const rows = await q`DELETE FROM command.acceptances_default WHERE message_id <= ${last}`
      return { removed: freed + rows.count, position: NIL }
    }
    return done()
  },
}

/** Months and days that there is room for beyond the present one. */
const MONTHS_AHEAD = 2
const MONTHLY = [
  'read.messages',
  'read.message_history',
  'read.personal_data',
  'read.operator_ids',
  'read.events',
  'webhooks.attempts',
] as const

const partitions: Job = {
  name: 'partitions',
  everyMs: HOUR,
  step: async (q, now, position) => {
    const index = position === null ? 0 : Number(position)
    const table = MONTHLY[index]
    if (table === undefined) return done()
    await patiently(q)
    await q`SELECT command.ensure_months(${table}, ${new Date(now)}, ${MONTHS_AHEAD + 1})`
    return { removed: 0, position: String(index + 1) }
  },
}

/** All of them. */
export const RETENTION_JOBS: ReadonlyArray<Job> = [
  sealingKeys,
  personalData,
  messages,
  batches,
  events,
  deliveries,
  operatorIds,
  idempotencyKeys,
  ledger,
  erasures,
  partitions,
]
