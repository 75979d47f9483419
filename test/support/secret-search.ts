/**
 * Searches bytes for a secret in every encoding that could hide it. It does not find compressed or
 * encrypted secrets: the caller must decrypt first.
 */

/** The bytes of a secret in one encoding. */
interface Needle {
  readonly encoding: string
  readonly bytes: Buffer
  /** Whether the search ignores case. */
  readonly anyCase: boolean
}

const needle = (encoding: string, bytes: Buffer | string, anyCase = false): Needle => ({
  encoding,
  bytes: Buffer.from(bytes as string),
  anyCase,
})

/**
 * Returns the base64 characters of a text at an offset in a larger text, without the characters
 * that also depend on its neighbours.
 */
const base64At = (bytes: Buffer, offset: number): string => {
  const text = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/u, '')
  const whole = Math.floor(((offset + bytes.length) * 8) / 6)
  return text.slice(Math.ceil((offset * 8) / 6), whole)
}

/** Converts UTF-16 to the other byte order. */
const swapped = (bytes: Buffer): Buffer => Buffer.from(bytes).swap16()

/** Semi-octets, as telephone networks encode digits: two in a byte, the first in the low half. */
const semiOctets = (digits: string): Buffer =>
  Buffer.from((digits.length % 2 === 0 ? digits : `${digits}f`).replace(/(.)(.)/gu, '$2$1'), 'hex')

/** Returns the encodings of one spelling. */
const needlesOfSpelling = (text: string): ReadonlyArray<Needle> => {
  const utf8 = Buffer.from(text)
  const utf16 = Buffer.from(text, 'utf16le')
  const escaped = text
    .split('')
    .map((character) =>
      character.codePointAt(0)! < 0x80
        ? character
        : [...Buffer.from(character, 'utf16le').swap16().toString('hex').matchAll(/.{4}/gu)]
            .map(([unit]) => `\\u${unit}`)
            .join(''),
    )
    .join('')
  return [
    needle('utf8', utf8),
    needle('utf16le', utf16),
    needle('utf16be', swapped(utf16)),
    needle('hex', utf8.toString('hex'), true),
    needle('hex of utf16be', swapped(utf16).toString('hex'), true),
    ...[0, 1, 2].map((offset) => needle(`base64 at ${offset}`, base64At(utf8, offset))),
    ...[0, 1, 2].map((offset) =>
      needle(`base64url at ${offset}`, base64At(utf8, offset).replaceAll('+', '-').replaceAll('/', '_')),
    ),
    needle('url', encodeURIComponent(text), true),
    needle('json', escaped, true),
    needle('reversed', text.split('').toReversed().join('')),
  ]
}

/** Returns the needles of a text. It must be long enough to be unique. */
export const needlesOfText = (text: string): ReadonlyArray<Needle> => {
  if (text.length < 8)
    throw new RangeError('use a text of at least 8 characters: a shorter one occurs by chance')
  return needlesOfSpelling(text)
}

/**
 * Returns the needles of a number such as `+79001234567`: with and without the country code, and in
 * telephone encodings.
 */
export const needlesOfNumber = (number: string): ReadonlyArray<Needle> => {
  const digits = number.replace('+', '')
  return [
    ...needlesOfSpelling(digits.slice(1)),
    // A longer spelling has other base64 characters.
    ...[digits, number].flatMap((spelling) =>
      needlesOfSpelling(spelling).filter(({ encoding }) => encoding.startsWith('base64')),
    ),
    needle('semi-octets', semiOctets(digits)),
    needle('semi-octets in hex', semiOctets(digits).toString('hex'), true),
    needle('packed decimal', Buffer.from(`0${digits}`, 'hex')),
  ]
}

/** Returns the encodings of the needles that occur in the bytes. */
export const findEncodings = (bytes: Uint8Array, needles: ReadonlyArray<Needle>): ReadonlyArray<string> => {
  const haystack = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let lower: Buffer | null = null
  return needles
    .filter((one) => {
      if (!one.anyCase) return haystack.includes(one.bytes)
      lower ??= Buffer.from(haystack.toString('latin1').toLowerCase(), 'latin1')
      return lower.includes(Buffer.from(one.bytes.toString('latin1').toLowerCase(), 'latin1'))
    })
    .map(({ encoding }) => encoding)
}

/** Some stored bytes, and where they are stored. */
export interface StoredData {
  readonly where: string
  readonly bytes: Uint8Array
}

/** Returns `<location>: <encoding>` for each needle that was found, without repetition. */
export const findLeaks = (
  pieces: Iterable<StoredData>,
  needles: ReadonlyArray<Needle>,
): ReadonlyArray<string> => [
  ...new Set(
    [...pieces].flatMap(({ bytes, where }) =>
      findEncodings(bytes, needles).map((encoding) => `${where}: ${encoding}`),
    ),
  ),
]
