/** Numbers, amounts and codes, in the language of the viewer. */
import { type Language, language, perLanguage } from '../language.ts'
import { strings } from '../strings.ts'

const counts = perLanguage((of) => new Intl.NumberFormat(of))
const rates = perLanguage((of) => new Intl.NumberFormat(of, { maximumFractionDigits: 1 }))

export const countText = (value: number, of: Language = language): string => counts(of).format(value)

/** A rate with at most one digit after the point. */
export const rateText = (value: number, of: Language = language): string => rates(of).format(value)

/** `0.125` as `12.5 %`. */
export const percentText = (share: number, of: Language = language): string =>
  `${rateText(share * 100, of)} %`

interface Amount {
  readonly amount: string
  readonly currency: string
}

/** Some number with all separators of a language. */
const WITH_SEPARATORS = 1_234_567.8

const separators = perLanguage((of) => {
  const parts = counts(of).formatToParts(WITH_SEPARATORS)
  const separator = (type: 'group' | 'decimal'): string =>
    parts.find((part) => part.type === type)?.value ?? ''
  return { group: separator('group'), decimal: separator('decimal') }
})

/** Amounts stay decimal text: a float would change them. */
export const moneyText = ({ amount, currency }: Amount, of: Language = language): string => {
  const { decimal, group } = separators(of)
  const [whole = '0', fraction] = amount.split('.')
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+(?!\d))/gu, group)
  return `${grouped}${fraction === undefined ? '' : `${decimal}${fraction}`} ${currency}`
}

/** A code of the API in the language of the viewer. A code that the console does not know: `some_code` as `some code`. */
export const wordsOf = (code: string): string => strings.words[code] ?? code.replaceAll('_', ' ')
