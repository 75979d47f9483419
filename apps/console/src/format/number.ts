/** Numbers and amounts, as the console shows them. */

const integers = new Intl.NumberFormat('en')
const oneDigit = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

export const countText = (value: number): string => integers.format(value)

/** A rate with at most one digit after the point. */
export const rateText = (value: number): string => oneDigit.format(value)

/** `0.125` as `12.5 %`. */
export const percentText = (share: number): string => `${oneDigit.format(share * 100)} %`

interface Amount {
  readonly amount: string
  readonly currency: string
}

/** Amounts stay decimal text: a float would change them. */
export const moneyText = ({ amount, currency }: Amount): string => {
  const [whole = '0', fraction] = amount.split('.')
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+(?!\d))/gu, ',')
  return `${grouped}${fraction === undefined ? '' : `.${fraction}`} ${currency}`
}

/** `pending_moderation` as `pending moderation`. */
export const wordsOf = (code: string): string => code.replaceAll('_', ' ')
