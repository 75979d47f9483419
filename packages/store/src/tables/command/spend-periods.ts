/**
 * `command.spend_periods`: what an account has spent in a month, against the limit in
 * `command.account_settings`.
 *
 * Owner: command-api, which adds the price of each accepted message. The projector refunds messages
 * that turned out to be free, and sets `threshold_told` once per period. Ids of accounts are public
 * ids (`acc_…`), periods are the first day of the month, `2026-11-01`.
 * Hub staff read and reset the spend.
 */
import { DEFAULT_SOFT_THRESHOLD_PERCENT, encodeId, type Money } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { firstRow, type SqlFragment } from '../../sql.ts'
import { uuidOf } from '../../uuid.ts'

interface AccountPeriod {
  readonly account: string
  readonly period: string
}

/** A soft threshold that an account has crossed in a period. */
export interface CrossedThreshold extends AccountPeriod {
  readonly limit: Money
  readonly spent: Money
  readonly softThresholdPercent: number
}

/** Whether period `p` (settings `s`) has crossed the threshold without an event yet. */
const isCrossed = (q: Queries) => q`
  NOT p.threshold_told
  AND p.spent * 100 >= s.spend_limit * coalesce(s.soft_threshold_percent, ${DEFAULT_SOFT_THRESHOLD_PERCENT}::integer)`

/**
 * Locks the periods to refund, and the charged ones that have crossed their threshold, in the same
 * order as the acceptance batches, so that transactions cannot deadlock.
 */
export const lock = (
  q: Queries,
  refunded: ReadonlyArray<AccountPeriod>,
  charged: ReadonlyArray<AccountPeriod>,
) => {
  const wanted = [
    ...charged.map(({ account, period }) => ({ account, period, refunded: 'f' })),
    ...refunded.map(({ account, period }) => ({ account, period, refunded: 't' })),
  ]
  const rows = [...new Map(wanted.map((row) => [`${row.account} ${row.period}`, row])).values()]
  return q`
    SELECT 1 FROM command.spend_periods p
      JOIN unnest(${rows.map((r) => uuidOf('acc', r.account))}::uuid[], ${rows.map((r) => r.period)}::date[],
                  ${rows.map((r) => r.refunded)}::text[]) AS w (account, period, refunded) USING (account, period)
      LEFT JOIN command.account_settings s ON s.account = p.account AND s.mode = 'live'
     WHERE w.refunded::boolean OR (${isCrossed(q)})
     ORDER BY p.account, p.period
       FOR UPDATE OF p`
}

/**
 * The final part of a statement: subtracts `amount` from the period of each row of a common table
 * expression `source (account, period, amount)`.
 */
export const refund = (q: Queries, source: string): SqlFragment => q`
  UPDATE command.spend_periods p SET spent = p.spent - r.amount
    FROM ${q(source)} r WHERE p.account = r.account AND p.period = r.period`

/**
 * Marks and returns the periods of `candidates` that have reached their soft threshold, each to one
 * transaction only. `candidates`: a query with the columns `account`, `period` and `currency`.
 */
const mark = async (
  q: Queries,
  candidates: SqlFragment,
  limit: number | null,
): Promise<ReadonlyArray<CrossedThreshold>> => {
  const rows = await q<
    {
      account: string
      period: string
      spent: string
      spend_limit: string
      percent: number
      currency: string
    }[]
  >`
    WITH crossed AS (
      SELECT p.account, p.period, w.currency, s.spend_limit,
             coalesce(s.soft_threshold_percent, ${DEFAULT_SOFT_THRESHOLD_PERCENT}::integer) AS percent
        FROM command.spend_periods p
        JOIN (${candidates}) AS w USING (account, period)
        JOIN command.account_settings s ON s.account = p.account AND s.mode = 'live'
       WHERE ${isCrossed(q)}
       ORDER BY p.account, p.period LIMIT ${limit}
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

/** Marks and returns the charged periods that have reached their soft threshold. */
export const markCrossedThresholds = (
  q: Queries,
  charged: ReadonlyArray<AccountPeriod & { readonly currency: string }>,
): Promise<ReadonlyArray<CrossedThreshold>> =>
  mark(
    q,
    q`SELECT * FROM unnest(${charged.map((c) => uuidOf('acc', c.account))}::uuid[], ${charged.map((c) => c.period)}::date[],
                           ${charged.map((c) => c.currency)}::text[]) AS charged (account, period, currency)`,
    null,
  )

/**
 * Marks and returns at most `limit` accounts whose spend of the current month has reached the soft
 * threshold, whatever the cause: also a limit that was set or lowered.
 */
export const markReachedThresholds = (
  q: Queries,
  currency: string,
  limit: number,
): Promise<ReadonlyArray<CrossedThreshold>> =>
  mark(
    q,
    q`SELECT account, date_trunc('month', now() AT TIME ZONE 'UTC')::date AS period, ${currency}::text AS currency
        FROM command.account_settings WHERE mode = 'live' AND spend_limit IS NOT NULL`,
    limit,
  )

/** The spend of a period, as an amount of two fraction digits. Refunds can make it negative. */
export const read = async (
  q: Queries,
  { account, period }: AccountPeriod,
): Promise<{ readonly spent: string; readonly threshold_told: boolean } | null> =>
  firstRow(q<{ spent: string; threshold_told: boolean }[]>`
    SELECT greatest(spent, 0)::text AS spent, threshold_told FROM command.spend_periods
     WHERE account = ${uuidOf('acc', account)} AND period = ${period}`)

/** Sets the spend of a period to zero in the caller's transaction, and returns the old amount. */
export const reset = async (q: Queries, { account, period }: AccountPeriod): Promise<string> => {
  const [row] = await q<{ spent: string }[]>`
    SELECT spent::text FROM command.spend_periods
     WHERE account = ${uuidOf('acc', account)} AND period = ${period} FOR UPDATE`
  await q`
    UPDATE command.spend_periods SET spent = 0 WHERE account = ${uuidOf('acc', account)} AND period = ${period}`
  return row?.spent ?? '0.00'
}
