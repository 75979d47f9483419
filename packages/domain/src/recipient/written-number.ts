/**
 * Phone numbers in the way people write them: `+7 (900) 123-45-67`. Nothing is imported here, so that the
 * console can use it in a browser.
 */

/** What people write between the digits of a phone number. */
const SEPARATOR = String.raw`[\s().\u00a0\u2010-\u2015-]`
const SEPARATORS = new RegExp(SEPARATOR, 'gu')
/** A mobile number of Russia, also inside of a longer text such as `tel:+79…`, but not inside of a word. */
const WRITTEN_NUMBER = new RegExp(
  String.raw`(?:\+7|(?<![\p{L}\p{N}_-])[78])${SEPARATOR}*9(?:${SEPARATOR}*\d){9}(?!\d)`,
  'u',
)

/** The text without spaces, hyphens, dots and parentheses. */
export const withoutSeparators = (text: string): string => text.replaceAll(SEPARATORS, '')

/** Whether a text for people contains a phone number with its country code. */
export const containsWrittenNumber = (text: string): boolean => WRITTEN_NUMBER.test(text)
