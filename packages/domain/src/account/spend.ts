/** The spend limit of an account. Source: LIM-17, EVT-8. */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import type { Money } from '../values/money.ts'
import { toTimestamp } from '../values/timestamp.ts'

/** Default share of the limit, in percent, at which the hub emits `account.spend_threshold`. */
export const DEFAULT_SOFT_THRESHOLD_PERCENT = 80

/** A calendar month in UTC. A charge belongs to the month of acceptance. */
export interface SpendPeriod {
  /** The first day, such as `2026-11-01`. It identifies the period in the database. */
  readonly day: string
  /** Milliseconds since the epoch. `to` is exclusive. */
  readonly from: number
  readonly to: number
}

/** Returns the period that contains a moment (milliseconds since the epoch). */
export const spendPeriodOf = (at: number): SpendPeriod => {
  const moment = new Date(at)
  const [year, month] = [moment.getUTCFullYear(), moment.getUTCMonth()]
  const from = Date.UTC(year, month, 1)
  return { day: toTimestamp(from).slice(0, 10), from, to: Date.UTC(year, month + 1, 1) }
}

/** The field `spend_limit` of an account. */
interface SpendLimitObject {
  readonly limit: Money
  readonly spent: Money
  readonly period: { readonly from: string; readonly to: string }
  readonly soft_threshold_percent: number
}

interface Spending {
  readonly limit: Money
  readonly spent: Money
  readonly period: SpendPeriod
  readonly softThresholdPercent: number
}

export const spendLimitObject = ({
  limit,
  period,
  softThresholdPercent,
  spent,
}: Spending): SpendLimitObject => ({
  limit,
  spent,
  period: { from: toTimestamp(period.from), to: toTimestamp(period.to) },
  soft_threshold_percent: softThresholdPercent,
})

/** The id of the only `account.spend_threshold` event of an account (`acc_…`) and period. */
export const spendThresholdEventId = (account: string, period: SpendPeriod['day']): string =>
  eventIdOf(`${account} ${period}`, 'account.spend_threshold')

/** Makes the event for an account that has reached its soft threshold. */
export const spendThresholdCrossed = (
  account: string,
  spending: Spending,
): PublicEvent<SpendLimitObject & { readonly object: 'spend_limit' }, 'account.spend_threshold'> => ({
  id: spendThresholdEventId(account, spending.period.day),
  type: 'account.spend_threshold',
  object: { object: 'spend_limit', ...spendLimitObject(spending) },
})
