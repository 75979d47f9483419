/** A number with the form of a word that fits it, by the rules of a language. Pure. */
import type { Language } from '../language.ts'

/** The forms of a word. Russian: `one` 1, 21; `few` 2 to 4, 22; `many` 0, 5 to 20; `other` fractions. */
type Forms = Readonly<Partial<Record<Intl.LDMLPluralRule, string>>> & { readonly other: string }

/** `countOf('en')(2, { one: 'row', other: 'rows' })` is `2 rows`. */
export const countOf = (language: Language): ((value: number, forms: Forms) => string) => {
  const rules = new Intl.PluralRules(language)
  const numbers = new Intl.NumberFormat(language)
  return (value, forms) => `${numbers.format(value)} ${forms[rules.select(value)] ?? forms.other}`
}
