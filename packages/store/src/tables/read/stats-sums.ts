/** The sums over the tables of statistics, which count the same columns. */
import type { Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

/** Sums are decimal texts: those of a large account do not fit into 32 bits. */
export interface StatsSum {
  /** The value of each column of the group, in order; `null` in the row of the totals. */
  readonly group: ReadonlyArray<string> | null
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
export interface StatsPeriod {
  readonly account: string
  readonly mode: Mode
  readonly currency: string
  readonly from: string
  readonly to: string
}

/**
 * Sums over rows of statistics: one row of totals and, with `group`, one row for each group, in
 * order. One statement reads both, so that they agree.
 *
 * `rows`: `FROM … WHERE …`. `group`: an expression of type `text[]`. A group without messages has no
 * row. No sum is below zero: a projector of an older version does not write a newer table, so until a rebuild
 * its rows may lack a status that a newer one takes back.
 */
export const selectSums = (q: Queries, rows: SqlFragment, group: SqlFragment | null) => q<StatsSum[]>`
  SELECT ${group ?? q`NULL::text[]`} AS "group",
         ${group === null ? q`true` : q`grouping(${group}) = 1`} AS is_total,
         greatest(sum(accepted), 0) AS accepted, greatest(sum(sent), 0) AS sent,
         greatest(sum(delivered), 0) AS delivered, greatest(sum(undelivered), 0) AS undelivered,
         greatest(sum(rejected), 0) AS rejected, greatest(sum(expired), 0) AS expired,
         greatest(sum(parts), 0) AS parts, greatest(sum(price), 0)::numeric(18, 2)::text AS price
  ${rows}
  ${
    group === null
      ? q``
      : q`GROUP BY GROUPING SETS ((${group}), ()) HAVING grouping(${group}) = 1 OR sum(accepted) > 0 ORDER BY 1`
  }`
