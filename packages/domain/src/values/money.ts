/** Amounts of money: exact arithmetic in minor units, decimal strings in the API. */

/** A decimal string with two fraction digits, and its currency. It is never a float. */
export interface Money {
  readonly amount: string
  readonly currency: string
}

const AMOUNT = /^-?\d+\.\d{2}$/

/** `"12.50"` becomes `1250n`. Throws `RangeError` on a malformed amount. */
export const minorUnits = (money: Money): bigint => {
  if (!AMOUNT.test(money.amount)) {
    throw new RangeError('an amount of money must be a decimal with two fraction digits')
  }
  return BigInt(money.amount.replace('.', ''))
}

/** Converts from minor units. */
export const moneyOf = (units: bigint, currency: string): Money => {
  const digits = (units < 0n ? -units : units).toString().padStart(3, '0')
  return { amount: `${units < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`, currency }
}

export const zeroMoney = (currency: string): Money => ({ amount: '0.00', currency })

/** Adds two amounts. Throws `RangeError` if their currencies differ. */
export const addMoney = (a: Money, b: Money): Money => {
  if (a.currency !== b.currency) throw new RangeError('cannot add amounts of two currencies')
  return moneyOf(minorUnits(a) + minorUnits(b), a.currency)
}

/** Multiplies by a whole number, such as a number of parts. */
export const multiplyMoney = (money: Money, times: number): Money =>
  moneyOf(minorUnits(money) * BigInt(times), money.currency)
