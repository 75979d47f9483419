/** What an account may spend in a period, and what is told of it. Source: contract, Account and General (defaults). */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import { type Money, toTimestamp } from '../vocabulary.ts'

/** Share of the limit at which `account.spend_threshold` is sent where the account has no value of its own. */
export const DEFAULT_SOFT_THRESHOLD_PERCENT = 80

/** A calendar month in UTC. A charge and its reversal belong to the month of acceptance. */
export interface SpendPeriod {
  /** Its first day, `2026-11-01`: how it is named in the database. */
  readonly day: string
  /** Milliseconds since the epoch; `to` is not included. */
  readonly from: number
  readonly to: number
}

/** The period of a moment (milliseconds since the epoch). */
export const spendPeriodOf = (at: number): SpendPeriod => {
  const moment = new Date(at)
  const [year, month] = [moment.getUTCFullYear(), moment.getUTCMonth()]
  const from = Date.UTC(year, month, 1)
  return { day: toTimestamp(from).slice(0, 10), from, to: Date.UTC(year, month + 1, 1) }
}

/** What an account's `spend_limit` shows. */
export interface SpendLimitObject {
  readonly limit: Money
  readonly spent: Money
  readonly period: { readonly from: string; readonly to: string }
  readonly soft_threshold_percent: number
}

export interface Spending {
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

/** The id of the one `account.spend_threshold` of an account (`acc_…`) and a period (its first day). */
export const spendThresholdEventId = (account: string, period: SpendPeriod['day']): string =>
  eventIdOf(`${account} ${period}`, 'account.spend_threshold')

/** The event that an account has spent so much of its limit. */
export const spendThresholdCrossed = (
  account: string,
  spending: Spending,
): PublicEvent<SpendLimitObject & { readonly object: 'spend_limit' }, 'account.spend_threshold'> => ({
  id: spendThresholdEventId(account, spending.period.day),
  type: 'account.spend_threshold',
  object: { object: 'spend_limit', ...spendLimitObject(spending) },
})
