/** Checks the query of a summary. */
import { fromTimestamp } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { DATE_PATTERN, MAX_HOURLY_DAYS, MAX_STATS_DAYS } from '../limits.ts'
import { STATS_GROUPS, type StatsGroup } from '../schemas/stats.ts'
import { invalid } from './checks.ts'

/** The requested summary. Both days are included, and there are at most 366. */
export interface StatsWanted {
  /** `2026-11-01`, in UTC; not after `to`. */
  readonly from: string
  readonly to: string
  readonly groupBy: StatsGroup | null
}

const DAY_MS = 86_400_000
const DATE_RULE = 'A day is written as 2026-11-21.'
const ORDER_RULE = 'from must not be after to.'
const PERIOD_RULE = `A summary covers at most ${MAX_STATS_DAYS} days.`
const HOURLY_RULE = `A summary by hour or range covers at most ${MAX_HOURLY_DAYS} days.`
const GROUP_RULE = `group_by is one of: ${STATS_GROUPS.join(', ')}.`

/** Whether the text is a calendar day. PostgreSQL has no year 0. */
const isDay = (text: string): boolean =>
  DATE_PATTERN.test(text) && !text.startsWith('0000') && fromTimestamp(`${text}T00:00:00.000Z`) !== null

/** A day in the query; null without one. */
const decodeDay = (query: URLSearchParams, name: string): Result.Result<string | null, ApiError> => {
  const [day, ...others] = query.getAll(name)
  if (others.length > 0) return invalid(name, DATE_RULE)
  if (day === undefined) return Result.succeed(null)
  return isDay(day) ? Result.succeed(day) : invalid(name, DATE_RULE)
}

const isStatsGroup = (value: string): value is StatsGroup =>
  (STATS_GROUPS as ReadonlyArray<string>).includes(value)

/**
 * The query of `GET /v1/stats`: `from`, `to`, `group_by`. `today` (`2026-11-21`, UTC) is the
 * default of `to`; the first day of the month of `to` is the default of `from`. Fails with
 * `invalid_parameter`; its `param` is `from` for a `from` after `to` and for a period that is too
 * long. A `to` in the future is allowed.
 *
 * Source: STAT-2, STAT-3, STAT-5, STAT-6.
 */
export const decodeStatsQuery = (
  query: URLSearchParams,
  today: string,
): Result.Result<StatsWanted, ApiError> => {
  const first = decodeDay(query, 'from')
  if (Result.isFailure(first)) return Result.fail(first.failure)
  const last = decodeDay(query, 'to')
  if (Result.isFailure(last)) return Result.fail(last.failure)
  const to = last.success ?? today
  const from = first.success ?? `${to.slice(0, 8)}01`
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1
  if (days < 1) return invalid('from', ORDER_RULE)
  if (days > MAX_STATS_DAYS) return invalid('from', PERIOD_RULE)

  const [groupBy, ...others] = query.getAll('group_by')
  if (groupBy === undefined) return Result.succeed({ from, to, groupBy: null })
  if (others.length > 0 || !isStatsGroup(groupBy)) return invalid('group_by', GROUP_RULE)
  if ((groupBy === 'hour' || groupBy === 'range') && days > MAX_HOURLY_DAYS)
    return invalid('from', HOURLY_RULE)
  return Result.succeed({ from, to, groupBy })
}
