import fc from 'fast-check'
import * as segmentsCalculator from 'sms-segments-calculator'
import * as splitSms from 'split-sms'
import { describe, expect, it } from 'vitest'
import { countParts, encodingOf, fromSeptets, splitParts, toSeptets } from './sms.ts'

const GSM = Array.from(
  '@£$¥èéùìòÇ\nØøÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
const EXTENSION = Array.from('^{}\\[~]|€')

/** Texts of several parts, with characters that must not be split at a part boundary. */
const textOf = (...characters: ReadonlyArray<string>) =>
  fc.string({ unit: fc.constantFrom(...characters), maxLength: 500 })
const padded = (filler: string, ...characters: ReadonlyArray<string>) =>
  fc
    .tuple(
      fc.constantFrom(60, 66, 67, 68, 69, 70, 133, 134, 135, 151, 152, 153, 158, 159, 160, 305, 306),
      textOf(...characters),
    )
    .map(([length, rest]) => filler.repeat(length) + rest)
const gsmText = fc.oneof(textOf(...GSM, ...EXTENSION), padded('a', 'a', ...EXTENSION))
const unicodeText = fc.oneof(textOf('я', 'a', '😀', '€', '№'), padded('я', 'я', '😀', '🇷', '€'))
const anyText = fc.oneof(gsmText, unicodeText, fc.string({ unit: 'binary', maxLength: 400 }))

describe('encoding', () => {
  // Rules: EST-6
  it.each([
    ['', 'gsm7'],
    ['Code 1234', 'gsm7'],
    ['Ç', 'gsm7'],
    ['ç', 'ucs2'],
    ['`', 'ucs2'],
    ['№', 'ucs2'],
    ['€', 'gsm7'],
    ['\n', 'gsm7'],
    ['\t', 'ucs2'],
    ['\u001b', 'ucs2'],
    ['\u00a0', 'ucs2'],
    ['Заказ', 'ucs2'],
    ['😀', 'ucs2'],
  ])('of %j is %s', (text, encoding) => {
    expect(encodingOf(text)).toBe(encoding)
  })

  // Rules: EST-6
  it('agrees with split-sms on every code unit', () => {
    const differing = Array.from({ length: 0x10000 }, (_, code) => String.fromCharCode(code)).filter(
      (character) =>
        (encodingOf(character) === 'gsm7') !== (splitSms.split(character).characterSet === 'GSM'),
    )
    expect(differing).toEqual([])
  })
})

describe('parts', () => {
  // Rules: EST-6, EST-7, EST-8
  it.each([
    ['empty', '', { encoding: 'gsm7', characters: 0, parts: 1 }],
    ['160 Latin', 'a'.repeat(160), { encoding: 'gsm7', characters: 160, parts: 1 }],
    ['161 Latin', 'a'.repeat(161), { encoding: 'gsm7', characters: 161, parts: 2 }],
    ['306 Latin', 'a'.repeat(306), { encoding: 'gsm7', characters: 306, parts: 2 }],
    ['307 Latin', 'a'.repeat(307), { encoding: 'gsm7', characters: 307, parts: 3 }],
    ['70 Cyrillic', 'я'.repeat(70), { encoding: 'ucs2', characters: 70, parts: 1 }],
    ['71 Cyrillic', 'я'.repeat(71), { encoding: 'ucs2', characters: 71, parts: 2 }],
    ['134 Cyrillic', 'я'.repeat(134), { encoding: 'ucs2', characters: 134, parts: 2 }],
    ['135 Cyrillic', 'я'.repeat(135), { encoding: 'ucs2', characters: 135, parts: 3 }],
    ['80 euro signs', '€'.repeat(80), { encoding: 'gsm7', characters: 160, parts: 1 }],
    ['81 euro signs', '€'.repeat(81), { encoding: 'gsm7', characters: 162, parts: 2 }],
    [
      'an extension character at a part boundary',
      `${'a'.repeat(152)}€${'a'.repeat(151)}`,
      { encoding: 'gsm7', characters: 305, parts: 2 },
    ],
    [
      'an extension character that moves to the next part and causes a third one',
      `${'a'.repeat(152)}€${'a'.repeat(152)}`,
      { encoding: 'gsm7', characters: 306, parts: 3 },
    ],
    [
      'a surrogate pair at a part boundary',
      `${'я'.repeat(66)}😀${'я'.repeat(66)}`,
      { encoding: 'ucs2', characters: 134, parts: 3 },
    ],
    ['35 emoji', '😀'.repeat(35), { encoding: 'ucs2', characters: 70, parts: 1 }],
    ['67 emoji: 33 to a part', '😀'.repeat(67), { encoding: 'ucs2', characters: 134, parts: 3 }],
  ] as const)('of %s', (_, text, expected) => {
    expect(countParts(text)).toEqual(expected)
  })

  // Rules: EST-7, EST-8
  it('equal the text when joined, fit the capacity, and do not end inside a character', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const { encoding, parts } = countParts(text)
        const split = splitParts(text)
        expect(split.join('')).toBe(text)
        expect(split).toHaveLength(parts)
        for (const part of split) {
          const length = encoding === 'ucs2' ? part.length : countParts(part).characters
          expect(length).toBeLessThanOrEqual(
            encoding === 'ucs2' ? (parts > 1 ? 67 : 70) : parts > 1 ? 153 : 160,
          )
          expect(part.isWellFormed()).toBe(true)
        }
      }),
    )
  })

  // Rules: EST-6, EST-7, EST-8
  it('agree with split-sms', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const theirs = splitSms.split(text)
        expect(splitParts(text)).toEqual(theirs.parts.map((part) => part.content))
        const { encoding, characters } = countParts(text)
        expect(characters).toBe(encoding === 'gsm7' ? theirs.bytes : theirs.bytes / 2)
      }),
      { numRuns: 1000 },
    )
  })

  it('agree with sms-segments-calculator, except that it does not split graphemes', () => {
    // Each of these characters is always one grapheme, so that difference has no effect.
    const text = fc.oneof(gsmText, textOf('я', 'a', '😀', '№', '€'))
    fc.assert(
      fc.property(text, (message) => {
        const theirs = new segmentsCalculator.SegmentedMessage(message, 'auto')
        expect(countParts(message)).toMatchObject({
          encoding: theirs.encodingName === 'GSM-7' ? 'gsm7' : 'ucs2',
          parts: Math.max(1, theirs.segmentsCount),
        })
      }),
    )
  })
})

describe('septets', () => {
  it.each([
    ['@£$¥èéùìòÇ\n', [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
    ['ΞÆ', [0x1a, 0x1c]],
    ['A?¡à', [0x41, 0x3f, 0x40, 0x7f]],
    ['\f^{}\\[~]|€', [10, 0x14, 0x28, 0x29, 0x2f, 0x3c, 0x3d, 0x3e, 0x40, 0x65].flatMap((s) => [0x1b, s])],
  ])('of %j', (text, septets) => {
    expect(Array.from(toSeptets(text))).toEqual(septets)
  })

  it('decode to the same text, and their number equals the counted characters', () => {
    fc.assert(
      fc.property(gsmText, (text) => {
        expect(fromSeptets(toSeptets(text))).toBe(text)
        expect(toSeptets(text)).toHaveLength(countParts(text).characters)
      }),
    )
  })

  it('without a meaning are skipped or replaced', () => {
    expect(fromSeptets(Uint8Array.from([0x1b, 0x41, 0x1b, 0x1b, 0x65, 0x80, 0x1b]))).toBe('A€\ufffd')
  })
})
