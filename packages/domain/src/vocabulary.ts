/** Words that every aggregate uses. */

/** The sandbox (`test`) or the real operator (`live`); derived from the API key. */
export const MODES = ['live', 'test'] as const
export type Mode = (typeof MODES)[number]

/** Traffic class. It affects lifetime, limits and opt-outs. */
export const MESSAGE_CLASSES = ['otp', 'service'] as const
export type MessageClass = (typeof MESSAGE_CLASSES)[number]

/** A string decimal with two fraction digits, and its currency; never a float. */
export interface Money {
  readonly amount: string
  readonly currency: string
}

/** Plain decimal with exactly two fraction digits: kopecks and their like. */
const AMOUNT = /^-?\d+\.\d{2}$/

/** An amount in minor units: `"12.50"` is `1250n`. Throws `RangeError` on what is no amount: that is a mistake of ours. */
export const minorUnits = (money: Money): bigint => {
  if (!AMOUNT.test(money.amount))
    throw new RangeError('an amount of money is a decimal with two fraction digits')
  return BigInt(money.amount.replace('.', ''))
}

/** Money of so many minor units. */
export const moneyOf = (units: bigint, currency: string): Money => {
  const digits = (units < 0n ? -units : units).toString().padStart(3, '0')
  return { amount: `${units < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`, currency }
}

export const zeroMoney = (currency: string): Money => ({ amount: '0.00', currency })

/** The sum. Two currencies have none: `RangeError`. */
export const addMoney = (a: Money, b: Money): Money => {
  if (a.currency !== b.currency) throw new RangeError('money of two currencies cannot be added')
  return moneyOf(minorUnits(a) + minorUnits(b), a.currency)
}

/** So many times the amount; `times` is a whole number, such as parts. */
export const multiplyMoney = (money: Money, times: number): Money =>
  moneyOf(minorUnits(money) * BigInt(times), money.currency)

/** What was written last: what is written together often happened together, and to write it costs more than to look. */
let written = { ms: 0, text: '1970-01-01T00:00:00.000Z' }

/** A moment as the API writes it: UTC, ISO 8601, milliseconds, trailing `Z`. Source: specification, Times. */
export const toTimestamp = (ms: number): string => {
  if (ms !== written.ms) written = { ms, text: new Date(ms).toISOString() }
  return written.text
}

const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/

/** Milliseconds since the epoch of a timestamp in exactly that form, or `null` (a 30th of February is none). */
export const fromTimestamp = (text: string): number | null => {
  if (!TIMESTAMP.test(text)) return null
  const ms = Date.parse(text)
  return Number.isNaN(ms) || toTimestamp(ms) !== text ? null : ms
}

/** Characters as JSON Schema and PostgreSQL count them: code points. */
export const characterCount = (text: string): number => {
  let count = 0
  for (let i = 0; i < text.length; count++) i += text.codePointAt(i)! > 0xffff ? 2 : 1
  return count
}

const CONTROL = /[\p{Cc}--[\n]]/v

/** True where a text holds a control character other than line feed. Source: contract, General (lengths). */
export const hasControlCharacters = (text: string): boolean => CONTROL.test(text)
