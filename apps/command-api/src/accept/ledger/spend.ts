/**
 * The spend limit at acceptance: the charges of sends, and which of them exceed the limit. Pure.
 * Source: LIM-13, LIM-17.
 */
import { minorUnits, type Money, spendPeriodOf } from '@hub/domain'
import type { LedgerEntry } from './ledger.port.ts'

export interface Charge {
  /** `msg_…` */
  readonly messageId: string
  readonly accountUuid: string
  /** First day of the month. */
  readonly period: ReturnType<typeof spendPeriodOf>['day']
  readonly price: Money
  /** `null`: the account has no limit. */
  readonly limit: Money | null
}

/** The charges of entries. Test mode costs nothing. */
export const chargesOf = (entries: ReadonlyArray<LedgerEntry>): ReadonlyArray<Charge> =>
  entries
    .filter(({ owner }) => owner.mode === 'live')
    .map(({ fact, owner, spendLimit }) => ({
      messageId: fact.messageId,
      accountUuid: owner.accountUuid,
      period: spendPeriodOf(fact.at).day,
      price: fact.price,
      limit: spendLimit,
    }))

/** The key of an account's month. */
export const periodKey = (charge: Pick<Charge, 'accountUuid' | 'period'>): string =>
  `${charge.accountUuid} ${charge.period}`

/**
 * The message ids whose charges, added in order, exceed the limit. `spent`: by `periodKey`. After a
 * charge that does not fit, a cheaper one may still fit.
 */
export const overspending = (
  charges: ReadonlyArray<Charge>,
  spent: ReadonlyMap<string, Money>,
): ReadonlySet<string> => {
  const sums = new Map<string, bigint>()
  const refused = new Set<string>()
  for (const charge of charges) {
    const key = periodKey(charge)
    const before = sums.get(key) ?? (spent.has(key) ? minorUnits(spent.get(key)!) : 0n)
    const after = before + minorUnits(charge.price)
    if (charge.limit !== null && after > minorUnits(charge.limit)) {
      refused.add(charge.messageId)
      continue
    }
    sums.set(key, after)
  }
  return refused
}
