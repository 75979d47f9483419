/**
 * What becomes of messages over time, for insights of hub staff: sums over the statistics, and times of a sample of
 * messages. Owner of the tables: projector. All periods are whole hours or days (UTC) of acceptance, in milliseconds
 * since the epoch, without their end.
 *
 * `read.hourly_stats` has all messages by account and reason code; `read.range_stats` also has class and number
 * range, of messages that have a range. Without a class and a range, the sums are those of all messages.
 */
import {
  DELIVERY_HOURS,
  type MessageClass,
  type Mode,
  periodsToRead,
  REQUEST_HOURS,
  type RangeRequests,
  type RangeHour,
  type SuspiciousRequests,
  suspiciousRequests,
  type UnusualDelivery,
  unusualDelivery,
} from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { epochMs, type SqlFragment } from '../../sql.ts'

export interface InsightFilter {
  /** UUID; `null`: all accounts. */
  readonly account: string | null
  readonly mode: Mode
  readonly class: MessageClass | null
  /** `912`. */
  readonly range: string | null
  readonly from: number
  readonly to: number
}

/** The part of a period that becomes a row. */
export type InsightUnit = 'hour' | 'day'

/** Messages by their status now. */
export interface OutcomeCounts {
  readonly accepted: number
  readonly sent: number
  readonly delivered: number
  readonly undelivered: number
  readonly rejected: number
  readonly expired: number
}

const inPeriod = (q: Queries, { account, from, mode, to }: InsightFilter): SqlFragment => q`
  hour >= ${new Date(from)} AND hour < ${new Date(to)} AND mode = ${mode}
  ${account === null ? q`` : q`AND account = ${account}`}`

const ofRanges = (q: Queries, filter: InsightFilter): SqlFragment => q`
  FROM read.range_stats
 WHERE ${inPeriod(q, filter)}
   ${filter.class === null ? q`` : q`AND class = ${filter.class}`}
   ${filter.range === null ? q`` : q`AND number_range = ${filter.range}`}`

const ofAll = (q: Queries, filter: InsightFilter): SqlFragment =>
  q`FROM read.hourly_stats WHERE ${inPeriod(q, filter)}`

/** The smallest table that has the filter. */
const rowsOf = (q: Queries, filter: InsightFilter): SqlFragment =>
  filter.class === null && filter.range === null ? ofAll(q, filter) : ofRanges(q, filter)

/**
 * While projectors of two versions run, a status can be missing in a row of a range until a rebuild, and another one
 * be too low. No count is shown below zero.
 */
const sums = (q: Queries): SqlFragment => q`
  greatest(sum(accepted), 0)::float8 AS accepted, greatest(sum(sent), 0)::float8 AS sent,
  greatest(sum(delivered), 0)::float8 AS delivered, greatest(sum(undelivered), 0)::float8 AS undelivered,
  greatest(sum(rejected), 0)::float8 AS rejected, greatest(sum(expired), 0)::float8 AS expired`

const startOf = (q: Queries, unit: InsightUnit): SqlFragment => q`date_trunc(${unit}, hour, 'UTC')`

/** Counts by hour or day, in order. A part without messages has no row. */
export const readBuckets = (
  q: Queries,
  filter: InsightFilter,
  unit: InsightUnit,
): Promise<ReadonlyArray<OutcomeCounts & { readonly at: number }>> => q<
  (OutcomeCounts & { readonly at: number })[]
>`
  SELECT ${epochMs(q, 'at')} AS at, accepted, sent, delivered, undelivered, rejected, expired
    FROM (SELECT ${startOf(q, unit)} AS at, ${sums(q)} ${rowsOf(q, filter)} GROUP BY 1 HAVING sum(accepted) > 0) AS b
   ORDER BY 1`

/** Messages by reason code now, the most frequent first. Messages without one are left out. */
export const readReasons = (
  q: Queries,
  filter: InsightFilter,
): Promise<ReadonlyArray<{ readonly reason: string; readonly messages: number }>> => q<
  { readonly reason: string; readonly messages: number }[]
>`
  SELECT reason_code AS reason, sum(accepted)::float8 AS messages ${rowsOf(q, filter)} AND reason_code <> ''
   GROUP BY 1 HAVING sum(accepted) > 0 ORDER BY 2 DESC, 1`

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

/** What messages can be split by. */
export type InsightSplit = 'account' | 'class' | 'range' | 'template'

export interface InsightGroup extends OutcomeCounts {
  /** The UUID of an account, a class, a range or the name of a template. */
  readonly value: string
}

/**
 * Counts by a split, those with the most messages first, at most `limit`. By template the period has whole days, and
 * the filter no range, which `read.daily_stats` does not have.
 */
export const readGroups = (
  q: Queries,
  filter: InsightFilter,
  split: InsightSplit,
  limit: number,
): Promise<ReadonlyArray<InsightGroup>> => {
  const rows: Readonly<Record<InsightSplit, () => SqlFragment>> = {
    account: () => q`SELECT account::text AS value, ${sums(q)} ${rowsOf(q, filter)}`,
    class: () => q`SELECT class::text AS value, ${sums(q)} ${ofRanges(q, filter)}`,
    range: () => q`SELECT number_range AS value, ${sums(q)} ${ofRanges(q, filter)}`,
    template: () => q`
      SELECT template AS value, ${sums(q)} FROM read.daily_stats
       WHERE day >= ${dayOf(filter.from)}::date AND day < ${dayOf(filter.to)}::date AND mode = ${filter.mode}
         ${filter.account === null ? q`` : q`AND account = ${filter.account}`}
         ${filter.class === null ? q`` : q`AND class = ${filter.class}`}`,
  }
  return q<InsightGroup[]>`
    ${rows[split]()} GROUP BY 1 HAVING sum(accepted) > 0 ORDER BY sum(accepted) DESC, 1 LIMIT ${limit}`
}

/** The messages of a range in an hour or a day. */
export interface HeatRow {
  readonly range: string
  readonly at: number
  readonly accepted: number
  readonly delivered: number
  /** With a final status. */
  readonly final: number
}

export const readHeat = (
  q: Queries,
  filter: InsightFilter,
  unit: InsightUnit,
): Promise<ReadonlyArray<HeatRow>> => q<HeatRow[]>`
  SELECT range, ${epochMs(q, 'at')} AS at, accepted, delivered, delivered + undelivered + rejected + expired AS final
    FROM (SELECT number_range AS range, ${startOf(q, unit)} AS at, ${sums(q)} ${ofRanges(q, filter)}
           GROUP BY 1, 2 HAVING sum(accepted) > 0) AS h
   ORDER BY 1, 2`

/**
 * The ranges whose delivery rate is unusually low at `until`, milliseconds since the epoch. It reads a day of each of six
 * weeks: less than the heat map of 30 days.
 */
export const readUnusualDelivery = async (
  q: Queries,
  filter: Omit<InsightFilter, 'from' | 'to' | 'range'>,
  until: number,
): Promise<ReadonlyArray<UnusualDelivery>> => {
  const counts: Array<RangeHour> = []
  for (const period of periodsToRead(until, DELIVERY_HOURS)) {
    counts.push(...(await readHeat(q, { ...filter, ...period, range: null }, 'hour')))
  }
  return unusualDelivery(counts, until)
}

/**
 * The accounts (UUIDs) and ranges for which far too many codes were requested in live mode in the last hours, and the
 * start of these hours. It reads as many hours of each of six weeks, of all accounts: they are compared with each other.
 */
export const readSuspiciousRequests = async (
  q: Queries,
  until: number,
): Promise<ReadonlyArray<SuspiciousRequests & { readonly since: number }>> => {
  const periods = periodsToRead(until, REQUEST_HOURS)
  const dates = (of: 'from' | 'to') => periods.map((period) => new Date(period[of]).toISOString())
  const rows = await q<RangeRequests[]>`
    SELECT account, range, (week - 1)::integer AS week, accepted, delivered,
           delivered + undelivered + rejected + expired AS final
      FROM (SELECT account::text AS account, number_range AS range, p.week, ${sums(q)}
              FROM unnest(${dates('from')}::timestamptz[], ${dates('to')}::timestamptz[])
                   WITH ORDINALITY AS p (first, last, week)
              JOIN read.range_stats ON hour >= p.first AND hour < p.last
             WHERE mode = 'live' AND class = 'otp'
             GROUP BY 1, 2, 3 HAVING sum(accepted) > 0) AS r`
  const since = periods[0]?.from ?? until
  return suspiciousRequests(rows).map((found) => ({ ...found, since }))
}

/** Messages of each part that are looked at for the sample of times, the newest ones. */
export const EXAMINED = 1000
/** Messages of each part whose times are read, so that a page reads some thousand rows. */
export const SAMPLED = 100

/** The times of sampled messages of a part of a period, in milliseconds from the acceptance. */
export interface TimesRow {
  readonly at: number
  /** To the answer of the SMS operator. */
  readonly submit: ReadonlyArray<number>
  /** To the final status. */
  readonly final: ReadonlyArray<number>
}

/** Milliseconds from the acceptance to a time. The clocks of two processes may differ. */
const elapsed = (q: Queries, at: string): SqlFragment =>
  q`greatest(0, extract(epoch FROM ${q(at)} - m.created_at) * 1000)::float8`

/** `parts`: the starts of the parts. `length`: milliseconds of a part. A part without messages has no row. */
export const readTimes = (
  q: Queries,
  filter: Omit<InsightFilter, 'from' | 'to'>,
  parts: ReadonlyArray<number>,
  length: number,
): Promise<ReadonlyArray<TimesRow>> => q<TimesRow[]>`
  SELECT ${epochMs(q, 'p.at')} AS at,
         coalesce(json_agg(${elapsed(q, 't.sent_at')}) FILTER (WHERE t.sent_at IS NOT NULL), '[]') AS submit,
         coalesce(json_agg(${elapsed(q, 't.final_at')}) FILTER (WHERE t.final_at IS NOT NULL), '[]') AS final
    FROM unnest(${parts.map((at) => new Date(at).toISOString())}::timestamptz[]) AS p (at)
   CROSS JOIN LATERAL (
         SELECT id, created_at FROM (
           SELECT id, created_at, account, mode, class, number_range FROM read.messages
            WHERE id >= command.uuid_floor(p.at) AND id < command.uuid_floor(p.at + ${length} * interval '1 millisecond')
              AND account IS NOT NULL
            ORDER BY id DESC LIMIT ${EXAMINED}) AS newest
          WHERE mode = ${filter.mode}
            ${filter.account === null ? q`` : q`AND account = ${filter.account}`}
            ${filter.class === null ? q`` : q`AND class = ${filter.class}`}
            ${filter.range === null ? q`` : q`AND number_range = ${filter.range}`}
          LIMIT ${SAMPLED}) AS m
   CROSS JOIN LATERAL (
         SELECT min(h.at) FILTER (WHERE h.status = 'sent') AS sent_at,
                max(h.at) FILTER (WHERE h.status NOT IN ('accepted', 'sent')) AS final_at
           FROM read.message_history h WHERE h.message_id = m.id) AS t
   GROUP BY 1 ORDER BY 1`
