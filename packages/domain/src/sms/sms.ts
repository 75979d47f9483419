/**
 * How a text becomes SMS parts: GSM 03.38 in septets (160, or 153 a part), else UCS-2 in UTF-16 code units (70, or 67 a
 * part). Source: specification, Estimate and part counting; contract, Templates and senders (encoding).
 */

/** The basic table of GSM 03.38. It has `Ç` only: `ç` is UCS-2, as are the backtick and `№`. */
const GSM_BASIC =
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?' +
  '¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà'
/** The extension table: an escape and a septet, two in all. */
const GSM_EXTENSION = '\f^{}\\[~]|€'
/** The septets after the escape, in the order of `GSM_EXTENSION`. */
const EXTENSION_SEPTETS = [0x0a, 0x14, 0x28, 0x29, 0x2f, 0x3c, 0x3d, 0x3e, 0x40, 0x65]
/** Announces a septet of the extension table. Its own place in the basic table has no character. */
const ESCAPE = 0x1b

/** Septets of a UTF-16 code unit by its value; 0 where GSM has none. The euro sign is the last there is. */
const septetsOf = new Uint8Array('€'.charCodeAt(0) + 1)
for (const character of GSM_BASIC) septetsOf[character.charCodeAt(0)] = 1
for (const character of GSM_EXTENSION) septetsOf[character.charCodeAt(0)] = 2

export type Encoding = 'gsm7' | 'ucs2'

/** 140 octets are 160 septets or 70 code units; a part of several gives six octets to the header that joins them. */
const ROOM = {
  gsm7: { single: 160, several: 153 },
  ucs2: { single: 70, several: 67 },
} as const

/** `characters` counts septets (extension characters two) or UTF-16 code units. */
export interface PartCount {
  readonly encoding: Encoding
  readonly characters: number
  readonly parts: number
}

/** `gsm7` where every character is in the tables of GSM 03.38. */
export const encodingOf = (text: string): Encoding => {
  for (let i = 0; i < text.length; i++) if (!septetsOf[text.charCodeAt(i)]) return 'ucs2'
  return 'gsm7'
}

/** True where a surrogate pair begins, which takes two code units that stay together. */
const isPair = (text: string, i: number): boolean =>
  (text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00

/** Walks the parts in order and tells where each ends (an index into `text`). */
const walk = (text: string, encoding: Encoding, characters: number, end: (index: number) => void): void => {
  const room = ROOM[encoding]
  if (characters <= room.single) return end(text.length)
  let used = 0
  for (let i = 0; i < text.length;) {
    const units = encoding === 'ucs2' && isPair(text, i) ? 2 : 1
    const cost = encoding === 'gsm7' ? septetsOf[text.charCodeAt(i)]! : units
    if (used + cost > room.several) {
      end(i)
      used = 0
    }
    used += cost
    i += units
  }
  end(text.length)
}

const charactersOf = (text: string, encoding: Encoding): number => {
  if (encoding === 'ucs2') return text.length
  let septets = 0
  for (let i = 0; i < text.length; i++) septets += septetsOf[text.charCodeAt(i)]!
  return septets
}

/** Encoding, length and number of parts of a text. An empty text is one part. */
export const countParts = (text: string): PartCount => {
  const encoding = encodingOf(text)
  const characters = charactersOf(text, encoding)
  let parts = 0
  walk(text, encoding, characters, () => parts++)
  return { encoding, characters, parts }
}

/**
 * The text of each part, in order; joined they are the text again. Neither an extension character nor a surrogate pair
 * ever straddles two parts.
 */
export const splitParts = (text: string): ReadonlyArray<string> => {
  const encoding = encodingOf(text)
  const parts: Array<string> = []
  let start = 0
  walk(text, encoding, charactersOf(text, encoding), (end) => {
    parts.push(text.slice(start, end))
    start = end
  })
  return parts
}

/** The place of a character of `GSM_BASIC` in the table, which has the escape in its midst. */
const basicSeptet = (index: number): number => (index < ESCAPE ? index : index + 1)

/** Character by septet; an empty string where there is none. */
const BASIC_CHARACTERS: ReadonlyArray<string> = Array.from({ length: 128 }, (_, septet) =>
  septet === ESCAPE ? '' : GSM_BASIC[septet < ESCAPE ? septet : septet - 1]!,
)

/** Septets by UTF-16 code unit; an extension character has the escape in its upper byte. */
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
 * A text of GSM 03.38 as one septet an octet, not packed, as operators take it. What the alphabet does not have
 * becomes a question mark: ask `encodingOf` first.
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
 * Reads septets, one an octet. An escape before what the extension table does not have is skipped, as the standard
 * wants; an octet above 127 is a replacement character. It never fails.
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
