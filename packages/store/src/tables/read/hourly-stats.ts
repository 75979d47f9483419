/**
 * `read.hourly_stats`: counts, parts and price by hour and reason code. Owner: projector. Retention
 * deletes hours that are three years old.
 */
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'
import { selectSums, type StatsPeriod, type StatsSum } from './stats-sums.ts'

/** A condition on rows of statistics by hour. Hours of days older than three years are left out (RET-4). */
export const isInPeriod = (q: Queries, { account, currency, from, mode, to }: StatsPeriod): SqlFragment => q`
  account = ${account} AND mode = ${mode} AND currency = ${currency}
  AND hour >= ${from}::date::timestamp AT TIME ZONE 'UTC'
  AND hour < (${to}::date + 1)::timestamp AT TIME ZONE 'UTC'
  AND hour >= ((now() AT TIME ZONE 'UTC' - interval '3 years')::date + 1)::timestamp AT TIME ZONE 'UTC'`

/**
 * Sums of a period by hour (`2026-11-21T10:00:00.000Z`) or by reason code, with a row of totals. The
 * group of messages without a reason code is an empty text.
 */
export const readSums = async (
  q: Queries,
  period: StatsPeriod,
  groupBy: 'hour' | 'reason_code',
): Promise<ReadonlyArray<StatsSum>> =>
  selectSums(
    q,
    q`FROM read.hourly_stats WHERE ${isInPeriod(q, period)}`,
    groupBy === 'hour'
      ? q`ARRAY[to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24":00:00.000Z"')]`
      : q`ARRAY[reason_code]`,
  )
