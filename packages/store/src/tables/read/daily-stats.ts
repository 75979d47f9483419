/** `read.daily_stats`: counts, parts and price by day, class and template. Owner: projector. */
import type { Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'

/** Sums are decimal texts: those of a large account do not fit into 32 bits. */
export interface StatsSum {
  /** The day (`2026-11-21`), class or template; `null` in the row of the totals. */
  readonly group: string | null
  readonly is_total: boolean
  readonly accepted: string
  readonly sent: string
  readonly delivered: string
  readonly undelivered: string
  readonly rejected: string
  readonly expired: string
  readonly parts: string
  readonly price: string
}

/** Both days (`2026-11-21`, UTC) are included. */
interface StatsPeriod {
  readonly account: string
  readonly mode: Mode
  readonly currency: string
  readonly from: string
  readonly to: string
}

/**
 * Sums of a period: one row of totals and, with `groupBy`, one row for each group, in order. One
 * statement reads both, so that they agree. Days older than three years are left out
 * (specification, Retention).
 */
export const readSums = async (
  q: Queries,
  { account, currency, from, mode, to }: StatsPeriod,
  groupBy: 'day' | 'class' | 'template' | null,
): Promise<ReadonlyArray<StatsSum>> => {
  const group =
    groupBy === null
      ? null
      : { day: q`to_char(day, 'YYYY-MM-DD')`, class: q`class::text`, template: q`template` }[groupBy]
  return q<StatsSum[]>`
    SELECT ${group ?? q`NULL`} AS "group",
           ${group === null ? q`true` : q`grouping(${group}) = 1`} AS is_total,
           coalesce(sum(accepted), 0) AS accepted, coalesce(sum(sent), 0) AS sent,
           coalesce(sum(delivered), 0) AS delivered, coalesce(sum(undelivered), 0) AS undelivered,
           coalesce(sum(rejected), 0) AS rejected, coalesce(sum(expired), 0) AS expired,
           coalesce(sum(parts), 0) AS parts, coalesce(sum(price), 0)::numeric(18, 2)::text AS price
      FROM read.daily_stats
     WHERE account = ${account} AND mode = ${mode} AND day BETWEEN ${from} AND ${to} AND currency = ${currency}
       AND day > (now() AT TIME ZONE 'UTC' - interval '3 years')::date
     ${group === null ? q`` : q`GROUP BY GROUPING SETS ((${group}), ()) ORDER BY 1`}`
}
