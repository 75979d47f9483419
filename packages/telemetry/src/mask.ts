/**
 * Masks phone numbers in log lines: a safety net for error messages of drivers that quote values.
 */

/** 11 to 15 consecutive digits with an optional plus that are not part of a word or an id. */
const PHONE_LIKE = /(?<![\w.-])\+?\d{11,15}(?![\w-])/gu

/** Millisecond timestamps begin with 1 until 2033, Russian numbers with 7 or 8. */
const isTimestamp = (digits: string): boolean => digits.length === 13 && digits.startsWith('1')

/** Replaces everything in `text` that looks like a phone number with `***`, or `+***`. */
export const maskNumbers = (text: string): string =>
  text.replace(PHONE_LIKE, (found) => (isTimestamp(found) ? found : `${found.startsWith('+') ? '+' : ''}***`))
