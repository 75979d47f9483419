/** `command.spend_periods`: what each account has spent in a calendar month (UTC) in live mode. */
import { addMoney, CURRENCY, type Money } from '@hub/domain'
import type { Queries, SqlFragment } from '@hub/store'
import { type Charge, periodKey } from '../spend.ts'

/** Locks the months of the charges, and returns what they have cost so far, by `periodKey`. */
export const lockSpent = async (
  q: Queries,
  charges: ReadonlyArray<Charge>,
): Promise<ReadonlyMap<string, Money>> => {
  const months = [...new Map(charges.map((charge) => [periodKey(charge), charge])).values()]
  const accounts = months.map(({ accountUuid }) => accountUuid)
  const periods = months.map(({ period }) => period)
  const [, rows] = await Promise.all([
    q`INSERT INTO command.spend_periods (account, period)
      SELECT * FROM unnest(${accounts}::uuid[], ${periods}::date[]) AS m (account, period) ORDER BY account, period
      ON CONFLICT DO NOTHING`.execute(),
    q<{ account: string; period: string; spent: string }[]>`
      SELECT account, period::text, spent::text FROM command.spend_periods
       WHERE (account, period) IN (SELECT * FROM unnest(${accounts}::uuid[], ${periods}::date[]))
       ORDER BY account, period FOR UPDATE`.execute(),
  ])
  return new Map(
    rows.map(({ account, period, spent }) => [
      periodKey({ accountUuid: account, period }),
      { amount: spent, currency: CURRENCY },
    ]),
  )
}

/** Adds the charges to their months. */
export const addSpent = (q: Queries, charges: ReadonlyArray<Charge>) => {
  const sums = new Map<string, { readonly charge: Charge; readonly sum: Money }>()
  for (const charge of charges) {
    const key = periodKey(charge)
    const before = sums.get(key)
    sums.set(key, {
      charge,
      sum: before === undefined ? charge.price : addMoney(before.sum, charge.price),
    })
  }
  const months = [...sums.values()]
  return q`
    INSERT INTO command.spend_periods AS p (account, period, spent)
    SELECT account, period, amount
      FROM unnest(${months.map(({ charge }) => charge.accountUuid)}::uuid[],
                  ${months.map(({ charge }) => charge.period)}::date[],
                  ${months.map(({ sum }) => sum.amount)}::numeric[]) AS m (account, period, amount)
     ORDER BY account, period
    ON CONFLICT (account, period) DO UPDATE SET spent = p.spent + excluded.spent`
}

/** A query: the live charges by account and month of the common table expression `changed`. */
const monthlySums = (q: Queries, changed: string) => q`
  SELECT account, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS period, sum(price) AS amount
    FROM ${q(changed)} WHERE mode = 'live' GROUP BY 1, 2`

/** A statement: subtracts the charges of `changed` from their months. */
export const subtractCharges = (q: Queries, changed: string): SqlFragment => q`
  UPDATE command.spend_periods p SET spent = p.spent - months.amount
    FROM (${monthlySums(q, changed)}) AS months
   WHERE p.account = months.account AND p.period = months.period`

/** A statement: adds the charges of `changed` to their months. */
export const addCharges = (q: Queries, changed: string): SqlFragment => q`
  INSERT INTO command.spend_periods AS p (account, period, spent)
  SELECT account, period, amount FROM (${monthlySums(q, changed)}) AS months ORDER BY account, period
  ON CONFLICT (account, period) DO UPDATE SET spent = p.spent + excluded.spent`
