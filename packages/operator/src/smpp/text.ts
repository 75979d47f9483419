/**
 * Texts in SMPP. Outbound: GSM 03.38 with one septet per octet (`data_coding` 0) or UCS-2 (8), in
 * the parts that the domain counts, with an 8-bit concatenation header. Inbound texts are decoded by
 * their `data_coding`.
 */
import { encodingOf, fromSeptets, splitParts, toSeptets } from '@hub/domain'
import { Result } from 'effect'

/** `short_message` of one submit_sm. */
export interface Segment {
  readonly shortMessage: Uint8Array
  /** `esm_class`: 0x40 if the text has a user data header. */
  readonly esmClass: number
  readonly dataCoding: number
}

/** The flag of `esm_class` for a user data header. */
export const UDHI = 0x40
/** `data_coding` of outbound texts. */
export const DATA_CODING = { gsm7: 0x00, ucs2: 0x08 } as const

const bigEndian = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16()

/**
 * The header of a concatenated part: information element 0x00, with an 8-bit reference. Source: 3GPP
 * TS 23.040, 9.2.3.24.1. A part has at most 140 octets. This header takes six of them and leaves 153
 * septets or 67 UTF-16 code units. Element 0x08, with a 16-bit reference, takes seven: a full part
 * would have 141 octets, and an SMSC may refuse it.
 */
const concatenation = (reference: number, parts: number, part: number): Buffer =>
  Buffer.from([5, 0x00, 3, reference, parts, part])

/**
 * Encodes a text into segments, one for each part that the domain counts. A text of several parts takes
 * a `reference` (0 to 255). Two texts to one recipient need different ones, or a phone mixes their parts.
 */
export const segmentsOf = (text: string, reference: () => number): ReadonlyArray<Segment> => {
  const encoding = encodingOf(text)
  const dataCoding = DATA_CODING[encoding]
  const bodies = splitParts(text).map((part) => (encoding === 'gsm7' ? toSeptets(part) : bigEndian(part)))
  if (bodies.length === 1) {
    return bodies.map((body) => ({ shortMessage: Buffer.from(body), esmClass: 0, dataCoding }))
  }
  const ofText = reference()
  return bodies.map((body, i) => ({
    shortMessage: Buffer.concat([concatenation(ofText, bodies.length, i + 1), body]),
    esmClass: UDHI,
    dataCoding,
  }))
}

/** Formats seconds as a relative time of SMPP 3.4 (7.1.1), `YYMMDDhhmmss000R`, up to 99 days. */
export const relativeTime = (seconds: number): string => {
  const whole = Math.min(Math.max(1, Math.ceil(seconds)), 99 * 86_400 - 1)
  const two = (n: number) => String(n).padStart(2, '0')
  const days = Math.floor(whole / 86_400)
  // A month has no fixed length, so the months stay zero.
  return `0000${two(days)}${two(Math.floor(whole / 3600) % 24)}${two(Math.floor(whole / 60) % 60)}${two(whole % 60)}000R`
}

/** Returns true for a sender name, false for a numeric sender. Source: SMPP 3.4, 5.2.5. */
export const isAlphanumeric = (sender: string): boolean => !/^\+?\d+$/u.test(sender)

/** The position of a part in a concatenated text. */
export interface Concatenation {
  readonly reference: number
  readonly parts: number
  /** From 1. */
  readonly part: number
}

/** Parses the user data header. Returns `null` if it is longer than the octets. */
export const parseHeader = (
  octets: Uint8Array,
): { readonly concatenation: Concatenation | null; readonly rest: Uint8Array } | null => {
  const length = octets[0]
  if (length === undefined || length + 1 > octets.length) return null
  let concatenation: Concatenation | null = null
  for (let at = 1; at + 2 <= length + 1;) {
    const [element, size] = [octets[at]!, octets[at + 1]!]
    if (at + 2 + size > length + 1) return null
    const data = octets.subarray(at + 2, at + 2 + size)
    if (element === 0x00 && size === 3) {
      concatenation = { reference: data[0]!, parts: data[1]!, part: data[2]! }
    } else if (element === 0x08 && size === 4) {
      concatenation = { reference: (data[0]! << 8) | data[1]!, parts: data[2]!, part: data[3]! }
    }
    at += 2 + size
  }
  return { concatenation, rest: octets.subarray(length + 1) }
}

/**
 * Alphabets of `data_coding` that the platform decodes. Source: SMPP 3.4, 5.2.19. Of JIS, the standard
 * names the characters and not their encoding: phones use Shift_JIS. JIS X 0212 exists only in EUC-JP.
 */
const DECODERS: ReadonlyMap<number, InstanceType<typeof TextDecoder>> = new Map(
  (
    [
      [5, 'shift_jis'],
      [6, 'iso-8859-5'],
      [7, 'iso-8859-8'],
      [10, 'iso-2022-jp'],
      [13, 'euc-jp'],
      [14, 'euc-kr'],
    ] as const
  ).map(([coding, label]) => [coding, new TextDecoder(label)]),
)

/**
 * The alphabet of a `data_coding`. Message classes (0xF0–0xFF, 0x10–0x1B) and waiting indications
 * (0xC0–0xEF) have it in other bits, as in GSM. Source: SMPP 3.4, 5.2.19; GSM 03.38, 4.
 */
const alphabetOf = (dataCoding: number): number => {
  if (dataCoding >= 0xf0) return (dataCoding & 0x04) === 0 ? 0 : 4
  if (dataCoding >= 0xe0) return 8
  if (dataCoding >= 0xc0) return 0
  return dataCoding >= 0x10 && dataCoding <= 0x1b ? dataCoding & 0x0c : dataCoding
}

const [bigEndianText, littleEndianText] = [new TextDecoder('utf-16be'), new TextDecoder('utf-16le')]
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** UCS-2 is big-endian, unless a byte order mark says otherwise. */
const fromUcs2 = (octets: Uint8Array): string => {
  const whole = octets.subarray(0, octets.length & ~1)
  const isLittleEndian = whole[0] === 0xff && whole[1] === 0xfe
  return (isLittleEndian ? littleEndianText : bigEndianText).decode(whole)
}

/**
 * Decodes octets above 127 that the declared alphabet of 7 bits does not have: SMSCs send UTF-8 and Latin-1
 * with the `data_coding` of the default alphabet.
 */
const fromWronglyDeclared = (octets: Uint8Array): string =>
  Result.getOrElse(
    Result.try(() => utf8.decode(octets)),
    () => Buffer.from(octets).toString('latin1'),
  )

/**
 * Decodes a text by its `data_coding`; `null` for binary data (2, 4), pictograms (9) and reserved values,
 * which have no characters. 0 is the operator's default alphabet (here GSM 03.38), 1 ASCII, 3 Latin-1,
 * 8 UCS-2.
 */
export const decodeText = (octets: Uint8Array, dataCoding: number): string | null => {
  const alphabet = alphabetOf(dataCoding)
  switch (alphabet) {
    case 0:
    case 1:
      if (octets.some((octet) => octet > 0x7f)) return fromWronglyDeclared(octets)
      return alphabet === 0 ? fromSeptets(octets) : Buffer.from(octets).toString('latin1')
    case 3:
      return Buffer.from(octets).toString('latin1')
    case 8:
      return fromUcs2(octets)
    default:
      return DECODERS.get(alphabet)?.decode(octets) ?? null
  }
}

/** The octets of a part without its header. */
export interface Encoded {
  readonly octets: Uint8Array
  readonly dataCoding: number
}

/**
 * Decodes the parts of a text, each of which `decodeText` can read. A character may begin in one part and
 * end in the next one, so parts of one `data_coding` are joined before.
 */
export const decodeParts = (parts: ReadonlyArray<Encoded>): string => {
  const joined: Array<Encoded> = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (last?.dataCoding !== part.dataCoding) joined.push(part)
    else joined[joined.length - 1] = { ...last, octets: Buffer.concat([last.octets, part.octets]) }
  }
  return joined.map(({ dataCoding, octets }) => decodeText(octets, dataCoding) ?? '').join('')
}
