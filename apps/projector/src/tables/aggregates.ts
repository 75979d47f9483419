/**
 * The SQL of the sums. Other than the rows of messages, which belong to one shard and so to one projector, these rows are
 * everybody's: each statement takes them in one order, and they come in one order of tables (batches, statistics, spend
 * periods, ends of journals), so that projectors wait for each other and never in a circle.
 */
import { DEFAULT_SOFT_THRESHOLD_PERCENT, encodeId, type Mode, toTimestamp } from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import { type Queries, sqlArray, uuidOf } from '@hub/store'
import type { Charge } from '../messages/fold.ts'
import { flag, type ReadSchema, tableIn } from './all.ts'
import type { ClosedBatch, CrossedThreshold, Spender } from '../aggregates/aggregate-events.ts'
import type { BatchChange, StatsChange } from '../aggregates/deltas.ts'

/**
 * Moves the counts of batches, and keeps the first seal of each. The rows are held until the transaction ends, so that
 * of two transactions that bring the last messages of a batch the second sees what the first has counted.
 */
export const writeBatches = (
  q: Queries,
  changes: ReadonlyArray<BatchChange>,
  seals: ReadonlyArray<BatchSealed>,
  schema: ReadSchema = 'read',
) => {
  const changed = new Map(changes.map((change) => [change.batch, change]))
  const sealed = new Map(seals.toReversed().map((seal) => [seal.batch, seal]))
  const rows = [...new Set([...changed.keys(), ...sealed.keys()])].flatMap((batch) => {
    const [change, seal] = [changed.get(batch), sealed.get(batch)]
    const owner = change ?? seal
    return owner === undefined ? [] : [{ batch, account: owner.account, mode: owner.mode, change, seal }]
  })
  const counts = (field: keyof Omit<BatchChange, 'batch' | 'account' | 'mode'>) =>
    rows.map(({ change }) => change?.[field] ?? 0)
  const told = (field: 'total' | 'accepted' | 'duplicate' | 'rejected') =>
    rows.map(({ seal }) => seal?.[field] ?? null)
  const moment = (field: 'createdAt' | 'at') =>
    rows.map(({ seal }) => (seal === undefined ? null : toTimestamp(seal[field])))
  return q`
    INSERT INTO ${tableIn(q, schema, 'batches')} AS b (id, account, mode, created_at, sealed_at, total, accepted, duplicate, rejected,
                                   members, final, delivered, undelivered, rejected_by_operator, expired)
    SELECT id, account, mode::command.mode, created_at, sealed_at, total, accepted, duplicate, rejected,
           members, final, delivered, undelivered, rejected_by_operator, expired
      FROM unnest(${rows.map((r) => uuidOf('bat', r.batch))}::uuid[], ${rows.map((r) => uuidOf('acc', r.account))}::uuid[],
                  ${rows.map((r) => r.mode)}::text[], ${moment('createdAt')}::timestamptz[],
                  ${moment('at')}::timestamptz[], ${told('total')}::integer[], ${told('accepted')}::integer[],
                  ${told('duplicate')}::integer[], ${told('rejected')}::integer[], ${counts('members')}::integer[],
                  ${counts('final')}::integer[], ${counts('delivered')}::integer[], ${counts('undelivered')}::integer[],
                  ${counts('rejected')}::integer[], ${counts('expired')}::integer[])
        AS w (id, account, mode, created_at, sealed_at, total, accepted, duplicate, rejected,
              members, final, delivered, undelivered, rejected_by_operator, expired)
     ORDER BY id
    ON CONFLICT (id) DO UPDATE SET
      created_at = coalesce(b.created_at, excluded.created_at), sealed_at = coalesce(b.sealed_at, excluded.sealed_at),
      total = coalesce(b.total, excluded.total), accepted = coalesce(b.accepted, excluded.accepted),
      duplicate = coalesce(b.duplicate, excluded.duplicate), rejected = coalesce(b.rejected, excluded.rejected),
      members = b.members + excluded.members, final = b.final + excluded.final,
      delivered = b.delivered + excluded.delivered, undelivered = b.undelivered + excluded.undelivered,
      rejected_by_operator = b.rejected_by_operator + excluded.rejected_by_operator,
      expired = b.expired + excluded.expired`
}

interface ClosedRecord {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly created_at: Date
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly delivered: number
  readonly undelivered: number
  readonly rejected_by_operator: number
  readonly expired: number
}

/**
 * Closes those of the batches (`bat_…`, held by `writeBatches`) that are sealed and of which every message is final, and
 * answers them: each batch is answered to one transaction in its life. A message that was refused because its publication
 * seemed to have failed may have landed all the same: then there are more members than the seal says, and the
 * batch waits for all of them.
 */
export const closeBatches = async (
  q: Queries,
  batches: ReadonlyArray<string>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyArray<ClosedBatch>> => {
  const rows = await q<ClosedRecord[]>`
    UPDATE ${tableIn(q, schema, 'batches')} SET closed = true
     WHERE id = ANY (${batches.map((id) => uuidOf('bat', id))}::uuid[])
       AND NOT closed AND sealed_at IS NOT NULL AND final >= accepted AND final = members
    RETURNING id, account, mode, created_at, total, accepted, duplicate, rejected,
              delivered, undelivered, rejected_by_operator, expired`
  return rows.map((row) => ({
    batch: encodeId('bat', row.id),
    account: encodeId('acc', row.account),
    mode: row.mode,
    createdAt: row.created_at.getTime(),
    closed: true,
    total: row.total,
    accepted: row.accepted,
    duplicate: row.duplicate,
    rejectedAtAcceptance: row.rejected,
    delivered: row.delivered,
    undelivered: row.undelivered,
    rejectedByOperator: row.rejected_by_operator,
    expired: row.expired,
  }))
}

/** Moves lines of the daily statistics. */
export const writeStats = (q: Queries, changes: ReadonlyArray<StatsChange>, schema: ReadSchema = 'read') => q`
  INSERT INTO ${tableIn(q, schema, 'daily_stats')} AS s (day, account, mode, class, template, currency, accepted, sent, delivered,
                                     undelivered, rejected, expired, parts, price)
  SELECT day, account, mode::command.mode, class::command.class, template, currency, accepted, sent, delivered,
         undelivered, rejected, expired, parts, price
    FROM unnest(${changes.map((c) => c.day)}::date[], ${changes.map((c) => uuidOf('acc', c.account))}::uuid[],
                ${changes.map((c) => c.mode)}::text[], ${changes.map((c) => c.class)}::text[],
                ${changes.map((c) => c.template)}::text[], ${changes.map((c) => c.currency)}::text[],
                ${changes.map((c) => c.accepted)}::integer[], ${changes.map((c) => c.sent)}::integer[],
                ${changes.map((c) => c.delivered)}::integer[], ${changes.map((c) => c.undelivered)}::integer[],
                ${changes.map((c) => c.rejected)}::integer[], ${changes.map((c) => c.expired)}::integer[],
                ${changes.map((c) => c.parts)}::bigint[], ${changes.map((c) => c.price)}::numeric[])
      AS w (day, account, mode, class, template, currency, accepted, sent, delivered, undelivered, rejected, expired,
            parts, price)
   ORDER BY account, mode, day, class, template, currency
  ON CONFLICT (account, mode, day, class, template, currency) DO UPDATE SET
    accepted = s.accepted + excluded.accepted, sent = s.sent + excluded.sent,
    delivered = s.delivered + excluded.delivered, undelivered = s.undelivered + excluded.undelivered,
    rejected = s.rejected + excluded.rejected, expired = s.expired + excluded.expired,
    parts = s.parts + excluded.parts, price = s.price + excluded.price`

/** Whether a spend period `p` of an account with settings `s` has crossed its soft threshold, and that is still to be told. */
const isCrossed = (q: Queries) => q`
  NOT p.threshold_told
  AND p.spent * 100 >= s.spend_limit * coalesce(s.soft_threshold_percent, ${DEFAULT_SOFT_THRESHOLD_PERCENT}::integer)`

/**
 * Takes the spend periods of reversals, and with them those of spenders that have crossed their threshold: all of a
 * transaction's in one order, which is that of the flushes too. To be started before `writeCharges`, which then finds them
 * as they are.
 */
export const lockSpendPeriods = (
  q: Queries,
  reversals: ReadonlyArray<Charge>,
  spenders: ReadonlyArray<Spender>,
) => {
  const wanted = [
    ...spenders.map(({ account, period }) => ({ account, period, reversed: false })),
    ...reversals.map(({ account, period }) => ({ account, period, reversed: true })),
  ]
  const rows = [...new Map(wanted.map((row) => [`${row.account} ${row.period}`, row])).values()]
  return q`
    SELECT 1 FROM command.spend_periods p
      JOIN unnest(${rows.map((r) => uuidOf('acc', r.account))}::uuid[], ${rows.map((r) => r.period)}::date[],
                  ${rows.map((r) => flag(r.reversed))}::text[]) AS w (account, period, reversed) USING (account, period)
      LEFT JOIN command.account_settings s ON s.account = p.account AND s.mode = 'live'
     WHERE w.reversed::boolean OR (${isCrossed(q)})
     ORDER BY p.account, p.period
       FOR UPDATE OF p`
}

/** Appends charges and reversals that are not there yet. */
export const appendCharges = (q: Queries, charges: ReadonlyArray<Charge>, schema: ReadSchema) => q`
  INSERT INTO ${tableIn(q, schema, 'charges')} (message_id, kind, account, period, amount, currency, created_at)
  SELECT * FROM unnest(${sqlArray(charges.map((c) => uuidOf('msg', c.messageId)))}::uuid[], ${sqlArray(charges.map((c) => c.kind))}::text[],
                       ${sqlArray(charges.map((c) => uuidOf('acc', c.account)))}::uuid[],
                       ${sqlArray(charges.map((c) => c.period))}::date[], ${sqlArray(charges.map((c) => c.amount.amount))}::numeric[],
                       ${sqlArray(charges.map((c) => c.amount.currency))}::text[],
                       ${sqlArray(charges.map((c) => toTimestamp(c.at)))}::timestamptz[])
  ON CONFLICT DO NOTHING`

/**
 * Appends charges and reversals, and gives back what was reversed. Only what is appended is given back: the ledger of
 * charges outlives the messages, so facts that are folded into emptied tables again give nothing back twice.
 */
export const writeCharges = (q: Queries, charges: ReadonlyArray<Charge>) => q`
  WITH appended AS (
    ${appendCharges(q, charges, 'read')}
    RETURNING kind, account, period, amount),
  given_back AS (
    SELECT account, period, sum(amount) AS amount FROM appended WHERE kind = 'reversal' GROUP BY account, period)
  UPDATE command.spend_periods p SET spent = p.spent - g.amount
    FROM given_back g WHERE p.account = g.account AND p.period = g.period`

interface CrossedRecord {
  readonly account: string
  readonly period: string
  readonly spent: string
  readonly spend_limit: string
  readonly percent: number
  readonly currency: string
}

/**
 * Those of the spenders that have crossed their soft threshold and have not been told: each account and period is
 * answered to one transaction. A charge is projected after the flush that spent it has committed, so the poll that
 * brings the charge that crosses sees it crossed.
 */
export const tellThresholds = async (
  q: Queries,
  spenders: ReadonlyArray<Spender>,
): Promise<ReadonlyArray<CrossedThreshold>> => {
  const rows = await q<CrossedRecord[]>`
    WITH crossed AS (
      SELECT p.account, p.period, w.currency, s.spend_limit,
             coalesce(s.soft_threshold_percent, ${DEFAULT_SOFT_THRESHOLD_PERCENT}::integer) AS percent
        FROM command.spend_periods p
        JOIN unnest(${spenders.map((s) => uuidOf('acc', s.account))}::uuid[], ${spenders.map((s) => s.period)}::date[],
                    ${spenders.map((s) => s.currency)}::text[]) AS w (account, period, currency) USING (account, period)
        JOIN command.account_settings s ON s.account = p.account AND s.mode = 'live'
       WHERE ${isCrossed(q)}
       ORDER BY p.account, p.period
         FOR UPDATE OF p)
    UPDATE command.spend_periods p SET threshold_told = true
      FROM crossed c
     WHERE p.account = c.account AND p.period = c.period AND NOT p.threshold_told
    RETURNING p.account, p.period::text, p.spent, c.spend_limit, c.percent, c.currency`
  return rows.map((row) => ({
    account: encodeId('acc', row.account),
    period: row.period,
    limit: { amount: row.spend_limit, currency: row.currency },
    spent: { amount: row.spent, currency: row.currency },
    softThresholdPercent: row.percent,
  }))
}
