/**
 * The last line of defence for rule "personal data has one home": whatever reaches a log line is looked over
 * for anything that could be a phone number. Nobody logs numbers on purpose; this is for the driver's error
 * message that quotes a value.
 */

/** Eleven or more digits in a row, with an optional plus, that are not part of a longer word or id. */
const PHONE_LIKE = /(?<![\w.-])\+?\d{11,15}(?![\w-])/gu

/** Timestamps in milliseconds have 13 digits and begin with 1 until the year 2286; numbers here begin with 7 or 8. */
const isTimestamp = (digits: string): boolean => digits.length === 13 && digits.startsWith('1')

/**
 * Replaces everything in `text` that looks like a phone number by a mask that keeps the first four digits' worth
 * of shape away: `+7***`.
 */
export const maskNumbers = (text: string): string =>
  text.replace(PHONE_LIKE, (found) => (isTimestamp(found) ? found : `${found.startsWith('+') ? '+' : ''}***`))
