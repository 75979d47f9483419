/**
 * Splits a text into SMS parts. GSM 03.38 text is counted in septets: 160 in a single part, 153 in
 * one of several. Other text is UCS-2 and is counted in UTF-16 code units: 70 or 67. Source: EST-6 to
 * EST-8.
 */

/** The basic table of GSM 03.38. It contains `Ç`, but not `ç`, the backtick or `№`. */
const GSM_BASIC =
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?' +
  '¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà'
/** The extension table. Each of its characters takes two septets: the escape and a code. */
const GSM_EXTENSION = '\f^{}\\[~]|€'
/** The codes after the escape, in the order of `GSM_EXTENSION`. */
const EXTENSION_SEPTETS = [0x0a, 0x14, 0x28, 0x29, 0x2f, 0x3c, 0x3d, 0x3e, 0x40, 0x65]
/** Marks the next septet as a code of the extension table. */
const ESCAPE = 0x1b

/** Septets by UTF-16 code unit, 0 outside GSM. The euro sign is the highest one. */
const septetsOf = new Uint8Array('€'.charCodeAt(0) + 1)
for (const character of GSM_BASIC) septetsOf[character.charCodeAt(0)] = 1
for (const character of GSM_EXTENSION) septetsOf[character.charCodeAt(0)] = 2

export type Encoding = 'gsm7' | 'ucs2'

/** A part has 140 octets. The concatenation header takes six of them. */
const CAPACITY = {
  gsm7: { single: 160, several: 153 },
  ucs2: { single: 70, several: 67 },
} as const

/** `characters` is the number of septets or UTF-16 code units. */
export interface PartCount {
  readonly encoding: Encoding
  readonly characters: number
  readonly parts: number
}

/** Returns `gsm7` if GSM 03.38 contains every character, else `ucs2`. */
export const encodingOf = (text: string): Encoding => {
  for (let i = 0; i < text.length; i++) if (!septetsOf[text.charCodeAt(i)]) return 'ucs2'
  return 'gsm7'
}

/** True if a surrogate pair begins at `i`. Its two code units must stay in one part. */
const isPair = (text: string, i: number): boolean =>
  (text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00

/** Calls `onEnd` with the end index of each part in order. */
const forEachPart = (
  text: string,
  encoding: Encoding,
  characters: number,
  onEnd: (index: number) => void,
): void => {
  const capacity = CAPACITY[encoding]
  if (characters <= capacity.single) return onEnd(text.length)
  let used = 0
  for (let i = 0; i < text.length;) {
    const units = encoding === 'ucs2' && isPair(text, i) ? 2 : 1
    const cost = encoding === 'gsm7' ? septetsOf[text.charCodeAt(i)]! : units
    if (used + cost > capacity.several) {
      onEnd(i)
      used = 0
    }
    used += cost
    i += units
  }
  onEnd(text.length)
}

const charactersOf = (text: string, encoding: Encoding): number => {
  if (encoding === 'ucs2') return text.length
  let septets = 0
  for (let i = 0; i < text.length; i++) septets += septetsOf[text.charCodeAt(i)]!
  return septets
}

/** Returns encoding, length and number of parts. An empty text has one part. */
export const countParts = (text: string): PartCount => {
  const encoding = encodingOf(text)
  const characters = charactersOf(text, encoding)
  let parts = 0
  forEachPart(text, encoding, characters, () => parts++)
  return { encoding, characters, parts }
}

/**
 * Returns the text of each part in order. Joined, the parts equal the text.
 * No part ends inside an extension character or a surrogate pair.
 */
export const splitParts = (text: string): ReadonlyArray<string> => {
  const encoding = encodingOf(text)
  const parts: Array<string> = []
  let start = 0
  forEachPart(text, encoding, charactersOf(text, encoding), (end) => {
    parts.push(text.slice(start, end))
    start = end
  })
  return parts
}

/** The septet of a character of `GSM_BASIC`, which omits the escape. */
const basicSeptet = (index: number): number => (index < ESCAPE ? index : index + 1)

/** Character by septet. The escape has an empty string. */
const BASIC_CHARACTERS: ReadonlyArray<string> = Array.from({ length: 128 }, (_, septet) =>
  septet === ESCAPE ? '' : GSM_BASIC[septet < ESCAPE ? septet : septet - 1]!,
)

/** Septets by UTF-16 code unit. The upper byte contains the escape, if any. */
const SEPTETS = new Map<number, number>()
for (const [index, character] of Array.from(GSM_BASIC).entries()) {
  SEPTETS.set(character.charCodeAt(0), basicSeptet(index))
}
for (const [index, character] of Array.from(GSM_EXTENSION).entries()) {
  SEPTETS.set(character.charCodeAt(0), (ESCAPE << 8) | EXTENSION_SEPTETS[index]!)
}
const EXTENSION_CHARACTERS = new Map(
  Array.from(GSM_EXTENSION, (character, index) => [EXTENSION_SEPTETS[index]!, character]),
)

/**
 * Encodes a GSM 03.38 text with one septet per octet (unpacked), as SMPP requires.
 * A character outside the alphabet becomes a question mark, so call `encodingOf` first.
 */
export const toSeptets = (text: string): Uint8Array => {
  const septets: Array<number> = []
  for (let i = 0; i < text.length; i++) {
    const found = SEPTETS.get(text.charCodeAt(i)) ?? 0x3f
    if (found > 0xff) septets.push(ESCAPE)
    septets.push(found & 0xff)
  }
  return Uint8Array.from(septets)
}

/**
 * Decodes unpacked septets. It never fails: an escape before an unknown code is skipped, as the
 * standard requires, and an octet above 127 becomes a replacement character.
 */
export const fromSeptets = (septets: Uint8Array): string => {
  let text = ''
  for (let i = 0; i < septets.length; i++) {
    const septet = septets[i]!
    if (septet === ESCAPE) {
      const extension = EXTENSION_CHARACTERS.get(septets[i + 1] ?? -1)
      if (extension !== undefined) {
        text += extension
        i++
      }
    } else {
      text += septet < 128 ? BASIC_CHARACTERS[septet]! : '\ufffd'
    }
  }
  return text
}
