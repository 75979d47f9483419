/**
 * Looks for a secret in bytes, in every encoding that could hide it. What is compressed or encrypted is not found, and is not meant to be:
 * whoever searches opens it first.
 */

/** What to look for, in which of its needlesOfSpelling. */
interface Needle {
  readonly encoding: string
  readonly bytes: Buffer
  /** Letters count in either case. */
  readonly anyCase: boolean
}

const needle = (encoding: string, bytes: Buffer | string, anyCase = false): Needle => ({
  encoding,
  bytes: Buffer.from(bytes as string),
  anyCase,
})

/** The base64 characters that a text makes wherever it begins, without those that it shares with what stands around it. */
const base64At = (bytes: Buffer, offset: number): string => {
  const text = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/u, '')
  const whole = Math.floor(((offset + bytes.length) * 8) / 6)
  return text.slice(Math.ceil((offset * 8) / 6), whole)
}

/** The other byte order of UTF-16. */
const swapped = (bytes: Buffer): Buffer => Buffer.from(bytes).swap16()

/** Digits as telephone networks write them: two in a byte, the first in the low half. */
const semiOctets = (digits: string): Buffer =>
  Buffer.from((digits.length % 2 === 0 ? digits : `${digits}f`).replace(/(.)(.)/gu, '$2$1'), 'hex')

/** The needlesOfSpelling of one spelling. */
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

/** Of a text. It must be long enough that nothing else looks like it. */
export const needlesOfText = (text: string): ReadonlyArray<Needle> => {
  if (text.length < 8) throw new RangeError('a text of fewer than 8 characters is found everywhere')
  return needlesOfSpelling(text)
}

/** Of a number such as `+79001234567`: with and without what stands before its ten digits, and as networks write it. */
export const needlesOfNumber = (number: string): ReadonlyArray<Needle> => {
  const digits = number.replace('+', '')
  return [
    ...needlesOfSpelling(digits.slice(1)),
    // A text that begins elsewhere has other base64.
    ...[digits, number].flatMap((spelling) =>
      needlesOfSpelling(spelling).filter(({ encoding }) => encoding.startsWith('base64')),
    ),
    needle('semi-octets', semiOctets(digits)),
    needle('semi-octets in hex', semiOctets(digits).toString('hex'), true),
    needle('packed decimal', Buffer.from(`0${digits}`, 'hex')),
  ]
}

/** Which of the needles are in the bytes, by encoding. */
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

/** A piece of a store, and where it is. */
export interface StoredData {
  readonly where: string
  readonly bytes: Uint8Array
}

/** Where the needles are: `<place>: <encoding>`, each once. */
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
