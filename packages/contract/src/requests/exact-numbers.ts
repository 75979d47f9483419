/** Numbers of JSON that a double holds exactly. Source: TPL-21. */

/** Beyond it, doubles skip integers, so a number in a message could differ from the client's. */
const LARGEST = 2 ** 53

/** Every decimal of so many digits survives as a double in the range of normal doubles. */
export const SAFE_DIGITS = 15
const SMALLEST = 1e-300

/** JSON that parses to infinity, which no check of a number accepts. */
const INFINITE = Buffer.from('1e999')

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/u

/** The significant digits of a JSON number, and the power of ten of its last digit. */
const significant = (source: string): string => {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(source) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/u, '')
  const kept = digits.replace(/0+$/u, '')
  return kept === ''
    ? '0'
    : `${sign}${kept}e${Number(exponent) - fraction.length + digits.length - kept.length}`
}

/**
 * Whether a double shows a JSON number as the client wrote it, apart from zeros at its ends, and is
 * at most 2^53. True for a text that is no number: the parser reports it.
 */
export const isExact = (source: string): boolean => {
  const value = Number(source)
  const size = Math.abs(value)
  if (!(size <= LARGEST)) return !NUMBER.test(source)
  // The usual cases, because a body may have many numbers.
  if (source.length <= SAFE_DIGITS && size >= SMALLEST) return true
  return (
    source === String(value) || !NUMBER.test(source) || significant(source) === significant(String(value))
  )
}

/** Start and end of a number in the bytes of a body. */
export type NumberAt = readonly [start: number, end: number]

/** Replaces the numbers that are not exact by one that parses to infinity. */
export const withoutInexact = (bytes: Uint8Array, numbers: ReadonlyArray<NumberAt>): Uint8Array => {
  const parts: Array<Uint8Array> = []
  let from = 0
  for (const [start, end] of numbers) {
    if (isExact(Buffer.from(bytes.subarray(start, end)).toString('latin1'))) continue
    parts.push(bytes.subarray(from, start), INFINITE)
    from = end
  }
  return from === 0 ? bytes : Buffer.concat([...parts, bytes.subarray(from)])
}
