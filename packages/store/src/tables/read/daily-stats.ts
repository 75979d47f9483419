/** `read.daily_stats`: counts, parts and price by day, class and template. Owner: projector. */
import type { MessageClass, Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'
import { selectSums, type StatsPeriod, type StatsSum } from './stats-sums.ts'

/**
 * Sums of a period by day, class or template, with a row of totals. Days older than three years are
 * left out (RET-4).
 */
export const readSums = async (
  q: Queries,
  { account, currency, from, mode, to }: StatsPeriod,
  groupBy: 'day' | 'class' | 'template' | 'day,template' | null,
): Promise<ReadonlyArray<StatsSum>> => {
  const groups: Readonly<Record<NonNullable<typeof groupBy>, SqlFragment>> = {
    day: q`ARRAY[to_char(day, 'YYYY-MM-DD')]`,
    class: q`ARRAY[class::text]`,
    template: q`ARRAY[template]`,
    'day,template': q`ARRAY[to_char(day, 'YYYY-MM-DD'), template]`,
  }
  return selectSums(
    q,
    q`FROM read.daily_stats
     WHERE account = ${account} AND mode = ${mode} AND day BETWEEN ${from} AND ${to} AND currency = ${currency}
       AND day > (now() AT TIME ZONE 'UTC' - interval '3 years')::date`,
    groupBy === null ? null : groups[groupBy],
  )
}

/** The usage of an account in one mode, class, template and currency. Sums are decimal texts. */
export interface UsageRow {
  readonly account: string
  readonly name: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly template: string
  readonly currency: string
  readonly accepted: string
  readonly sent: string
  readonly delivered: string
  readonly undelivered: string
  readonly rejected: string
  readonly expired: string
  readonly parts: string
  readonly price: string
}

/** The usage of all accounts, or of one (UUID), in a month (`2026-11-01`: its first day, UTC). */
export const readUsage = async (
  q: Queries,
  month: string,
  { account, mode }: { readonly account: string | null; readonly mode: Mode | null },
): Promise<ReadonlyArray<UsageRow>> => q<UsageRow[]>`
  SELECT s.account, a.name, s.mode, s.class, s.template, s.currency,
         sum(s.accepted) AS accepted, sum(s.sent) AS sent, sum(s.delivered) AS delivered,
         sum(s.undelivered) AS undelivered, sum(s.rejected) AS rejected, sum(s.expired) AS expired,
         sum(s.parts) AS parts, sum(s.price)::numeric(18, 2)::text AS price
    FROM read.daily_stats s JOIN command.accounts a ON a.id = s.account
   WHERE s.day >= ${month}::date AND s.day < ${month}::date + interval '1 month'
     AND s.day > (now() AT TIME ZONE 'UTC' - interval '3 years')::date
     AND (${account}::uuid IS NULL OR s.account = ${account})
     AND (${mode}::command.mode IS NULL OR s.mode = ${mode})
   GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY a.name, s.account, s.mode, s.class, s.template, s.currency`

/** The counts of a template, as decimal texts. */
export interface TemplateCounts {
  readonly template: string
  readonly class: MessageClass
  readonly accepted: string
  readonly delivered: string
  readonly failed: string
}

/** The counts of the `limit` templates with the most messages in a period, both days included. */
export const readTemplates = async (
  q: Queries,
  { account, from, limit, mode, to }: Omit<StatsPeriod, 'currency'> & { readonly limit: number },
): Promise<ReadonlyArray<TemplateCounts>> =>
  q<TemplateCounts[]>`
    SELECT template, class, sum(accepted)::text AS accepted, sum(delivered)::text AS delivered,
           sum(undelivered + rejected + expired)::text AS failed
      FROM read.daily_stats
     WHERE account = ${account} AND mode = ${mode} AND day BETWEEN ${from}::date AND ${to}::date
       AND day > (now() AT TIME ZONE 'UTC' - interval '3 years')::date
     GROUP BY template, class ORDER BY sum(accepted) DESC, template, class LIMIT ${limit}`
