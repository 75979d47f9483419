/** Counts of a period. Source: STAT-1 to STAT-7. */
import type { Stats, StatsCounts, StatsGroup, StatsRow, StatsWanted } from '@hub/contract'
import { CURRENCY } from '@hub/domain'
import { ReadDailyStats, ReadHourlyStats, ReadRangeStats, Sql, type StatsSum } from '@hub/store'
import { csvLine } from '@hub/text'
import { Duration, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

const countsOf = (sum: StatsSum): StatsCounts => ({
  accepted: Number(sum.accepted),
  sent: Number(sum.sent),
  delivered: Number(sum.delivered),
  undelivered: Number(sum.undelivered),
  rejected: Number(sum.rejected),
  expired: Number(sum.expired),
  parts: Number(sum.parts),
  price: { amount: sum.price, currency: CURRENCY },
})

type GroupColumn = Exclude<StatsGroup, 'day,template'>

/** The columns of a group, in order. */
const columnsOf = (groupBy: StatsGroup | null): ReadonlyArray<GroupColumn> =>
  groupBy === null ? [] : groupBy === 'day,template' ? ['day', 'template'] : [groupBy]

/** Rows are in the order of their groups. A group without messages has no row. */
export const readStats = Effect.fnUntraced(function* (
  sql: Sql['Service'],
  owner: Owner,
  { from, groupBy, to }: StatsWanted,
) {
  const period = { account: owner.accountUuid, mode: owner.mode, currency: CURRENCY, from, to }
  const sums = yield* sql.run((q) => {
    if (groupBy === 'range') return ReadRangeStats.readSums(q, period)
    return groupBy === 'hour' || groupBy === 'reason_code'
      ? ReadHourlyStats.readSums(q, period, groupBy)
      : ReadDailyStats.readSums(q, period, groupBy)
  }, DEADLINE)
  const totals = sums.find((sum) => sum.is_total)
  if (totals === undefined) return yield* Effect.die('the sums of a period have no row of totals')
  const columns = columnsOf(groupBy)
  const data = sums
    .filter((sum) => !sum.is_total)
    .map((sum) => {
      const group = Object.fromEntries(columns.map((column, i) => [column, sum.group?.[i] || null]))
      return { ...group, ...countsOf(sum) } as StatsRow
    })
  return { object: 'stats', from, to, totals: countsOf(totals), data } satisfies Stats
})

const COUNTS = ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired', 'parts'] as const

/** The rows of a summary as CSV (RFC 4180) with a header line. Without groups, the totals. Pure. */
export const statsCsv = ({ data, totals }: Stats, groupBy: StatsGroup | null): string => {
  const columns = columnsOf(groupBy)
  const rows: ReadonlyArray<Partial<StatsRow> & StatsCounts> = groupBy === null ? [totals] : data
  const lines = rows.map((row) => [
    ...columns.map((column) => row[column]),
    ...COUNTS.map((name) => row[name]),
    row.price.amount,
    row.price.currency,
  ])
  return [[...columns, ...COUNTS, 'price', 'currency'], ...lines]
    .map((fields) => `${csvLine(fields)}\r\n`)
    .join('')
}

/** The weight of a media type in an `Accept` header; `null`: the header does not name it. */
const weightOf = (accept: string, type: string): number | null => {
  for (const range of accept.split(',')) {
    const [name, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    if (name !== type) continue
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
    return weight === undefined ? 1 : Number(weight) || 0
  }
  return null
}

/** Whether an `Accept` header prefers CSV to JSON. A client that does not name CSV gets JSON. Pure. */
export const prefersCsv = (accept: string | undefined): boolean => {
  if (accept === undefined) return false
  const csv = weightOf(accept, 'text/csv') ?? 0
  return csv > (weightOf(accept, 'application/json') ?? 0)
}
