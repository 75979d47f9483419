/**
 * `read.range_stats`: counts, parts and price by hour, class, number range and reason code. Owner: projector.
 * A message without a number range (its acceptance is of an older version) is in no row. Retention deletes
 * hours that are three years old.
 */
import type { Queries } from '../../pool.ts'
import { isInPeriod } from './hourly-stats.ts'
import { selectSums, type StatsPeriod, type StatsSum } from './stats-sums.ts'

/**
 * Sums of a period by number range (`912`), with a row of totals. The group of messages without a number
 * range is an empty text: it has what `read.hourly_stats` counts and this table does not. So the totals are
 * those of all messages.
 */
export const readSums = async (q: Queries, period: StatsPeriod): Promise<ReadonlyArray<StatsSum>> =>
  selectSums(
    q,
    q`FROM (
      SELECT '' AS number_range, accepted, sent, delivered, undelivered, rejected, expired, parts, price
        FROM read.hourly_stats WHERE ${isInPeriod(q, period)}
       UNION ALL
      SELECT side.number_range, sign * accepted, sign * sent, sign * delivered, sign * undelivered, sign * rejected,
             sign * expired, sign * parts, sign * price
        FROM (SELECT number_range, sum(accepted) AS accepted, sum(sent) AS sent, sum(delivered) AS delivered,
                     sum(undelivered) AS undelivered, sum(rejected) AS rejected, sum(expired) AS expired,
                     sum(parts) AS parts, sum(price) AS price
                FROM read.range_stats WHERE ${isInPeriod(q, period)} GROUP BY number_range) AS known
       CROSS JOIN LATERAL (VALUES (known.number_range, 1), ('', -1)) AS side (number_range, sign)
    ) AS counted`,
    q`ARRAY[number_range]`,
  )
