/**
 * Money at acceptance: what fits an account's spend limit, and which month it belongs to. Pure; the ledger takes and gives back.
 *
 * Source: specification, Rules of POST /v1/messages, 6, and Other limits.
 */
import { minorUnits, type Money, type spendPeriodOf } from '@hub/domain'

/** A charge that an acceptance makes. */
export interface Charge {
  /** `msg_…` */
  readonly messageId: string
  readonly accountUuid: string
  /** First day of the month. */
  readonly period: ReturnType<typeof spendPeriodOf>['day']
  readonly price: Money
  /** `null`: none is set. */
  readonly limit: Money | null
}

/** Names an account's month. */
export const periodKey = (charge: Pick<Charge, 'accountUuid' | 'period'>): string =>
  `${charge.accountUuid} ${charge.period}`

/**
 * The charges that do not fit, by message id. `spent`: what each month has cost so far, by `periodKey`. They are taken in their
 * order; what does not fit leaves its room to a cheaper one behind it.
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
