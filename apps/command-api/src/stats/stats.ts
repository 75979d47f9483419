/** Counts of a period. Source: specification, Endpoints; contract, Account, stats. */
import type { Stats, StatsCounts, StatsRow, StatsWanted } from '@hub/contract'
import { CURRENCY } from '@hub/domain'
import { ReadDailyStats, Sql } from '@hub/store'
import { Duration, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

const countsOf = (sum: ReadDailyStats.StatsSum): StatsCounts => ({
  accepted: Number(sum.accepted),
  sent: Number(sum.sent),
  delivered: Number(sum.delivered),
  undelivered: Number(sum.undelivered),
  rejected: Number(sum.rejected),
  expired: Number(sum.expired),
  parts: Number(sum.parts),
  price: { amount: sum.price, currency: CURRENCY },
})

/** Rows are in the order of their groups. A day, class or template without messages has no row. */
export const readStats = Effect.fnUntraced(function* (
  sql: Sql['Service'],
  owner: Owner,
  { from, groupBy, to }: StatsWanted,
) {
  const period = { account: owner.accountUuid, mode: owner.mode, currency: CURRENCY, from, to }
  const sums = yield* sql.run((q) => ReadDailyStats.readSums(q, period, groupBy), DEADLINE)
  const totals = sums.find((sum) => sum.is_total)
  if (totals === undefined) return yield* Effect.die('the sums of a period have no row of totals')
  const data = sums
    .filter((sum) => !sum.is_total)
    .map((sum) => ({ ...(groupBy === null ? {} : { [groupBy]: sum.group }), ...countsOf(sum) }) as StatsRow)
  return { object: 'stats', from, to, totals: countsOf(totals), data } satisfies Stats
})
