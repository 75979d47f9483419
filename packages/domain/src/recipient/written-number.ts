/**
 * Phone numbers in the way people write them: `+7 (900) 123-45-67`. Nothing is imported here, so that the
 * console can use it in a browser.
 */

/** What people write between the digits of a phone number. */
const SEPARATOR = String.raw`[\s().\u00a0\u2010-\u2015\u2212-]`
const SEPARATORS = new RegExp(SEPARATOR, 'gu')
/** A mobile number of Russia, also inside of a longer text such as `tel:+79…`, but not inside of a word. */
const WRITTEN_NUMBER = new RegExp(
  String.raw`(?:\+7|(?<![\p{L}\p{N}_-])[78])${SEPARATOR}*9(?:${SEPARATOR}*\d){9}(?!\d)`,
  'u',
)

/** The text without spaces, hyphens, dots and parentheses. */
export const withoutSeparators = (text: string): string => text.replaceAll(SEPARATORS, '')

/** Characters that nobody sees, such as the zero-width space and the Hangul filler. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu
/** The digits of positional notation in Chinese. Unicode does not count them as decimal digits. */
const HAN_DIGITS = '〇一二三四五六七八九'
const OTHER_DIGIT = new RegExp(String.raw`[${HAN_DIGITS}]|(?![0-9])\p{Nd}`, 'gu')
const DECIMAL = /^\p{Nd}$/u

/**
 * The value of a digit. The ten digits of a script follow each other, and begin with zero. Those of two scripts
 * may be neighbours.
 */
const valueOf = (digit: string): string => {
  const han = HAN_DIGITS.indexOf(digit)
  if (han >= 0) return String(han)
  const code = digit.codePointAt(0)!
  let value = 0
  while (DECIMAL.test(String.fromCodePoint(code - value - 1))) value += 1
  return String(value % 10)
}

/**
 * A text as somebody reads it: without invisible characters, and with the digits of all scripts and forms
 * (`٧`, `７`, `⑦`) as `0` to `9`.
 */
export const asRead = (text: string): string =>
  text.normalize('NFKC').replaceAll(INVISIBLE, '').replaceAll(OTHER_DIGIT, valueOf)

/** Whether a text for people contains a phone number with its country code, in any digits. */
export const containsWrittenNumber = (text: string): boolean => WRITTEN_NUMBER.test(asRead(text))
