/** Encoding, segments and times of SMPP short messages. */
import { countParts } from '@hub/domain'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeText, isAlphanumeric, parseHeader, relativeTime, segmentsOf } from './text.ts'

/** Decodes segments like a phone, with separate tables. */
const BASIC = Array.from(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\u001bÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
const EXTENSION: Readonly<Record<string, string>> = {
  '\n': '\f',
  Λ: '^',
  '(': '{',
  ')': '}',
  '/': '\\',
  '<': '[',
  '=': '~',
  '>': ']',
  '¡': '|',
  e: '€',
}
const decodeLikePhone = (dataCoding: number, octets: Uint8Array): string => {
  if (dataCoding === 8) return new TextDecoder('utf-16be').decode(octets)
  const characters = Array.from(octets, (septet) => BASIC[septet]!)
  const [first, ...escaped] = characters.join('').split('\u001b')
  return first! + escaped.map((rest) => (EXTENSION[rest[0]!] ?? rest[0]!) + rest.slice(1)).join('')
}

const pieces = fc.oneof(
  fc.string({ unit: fc.constantFrom('a', '€', '[', '\n', '@', 'Ω', ' '), maxLength: 400 }),
  fc.string({ unit: fc.constantFrom('я', 'a', '😀', '№'), maxLength: 300 }),
  fc
    .tuple(
      fc.constantFrom(66, 67, 69, 70, 152, 153, 159, 160, 305),
      fc.constantFrom('a', 'я'),
      fc.constantFrom('€', '😀'),
    )
    .map(([length, filler, last]) => filler.repeat(length) + last),
)

describe('segments', () => {
  it('have the number that the domain counts, fit into a part, and decode to the text', () => {
    fc.assert(
      fc.property(pieces, fc.integer({ min: 0, max: 0xff }), (text, reference) => {
        const counted = countParts(text)
        const segments = segmentsOf(text, () => reference)
        expect(segments).toHaveLength(counted.parts)
        const read = segments.map(({ dataCoding, esmClass, shortMessage }, i) => {
          expect(dataCoding).toBe(counted.encoding === 'gsm7' ? 0 : 8)
          if (counted.parts === 1) {
            expect(esmClass).toBe(0)
            expect(shortMessage.length).toBeLessThanOrEqual(dataCoding === 0 ? 160 : 140)
            return decodeLikePhone(dataCoding, shortMessage)
          }
          expect(esmClass).toBe(0x40)
          // 3GPP TS 23.040, 9.2.3.24.1: length of the header, element 0x00, its length, and its data.
          const header = [5, 0, 3, reference, counted.parts, i + 1]
          expect(Array.from(shortMessage.subarray(0, 6))).toEqual(header)
          // The same section: 140 octets have 160 septets. The header takes seven of them.
          expect(shortMessage.length - 6).toBeLessThanOrEqual(dataCoding === 0 ? 153 : 134)
          const part = decodeLikePhone(dataCoding, shortMessage.subarray(6))
          expect(part.isWellFormed()).toBe(true)
          return part
        })
        expect(read.join('')).toBe(text)
      }),
    )
  })

  it('are decoded by the inbound decoder', () => {
    fc.assert(
      fc.property(pieces, (text) => {
        const read = segmentsOf(text, () => 47).map(({ dataCoding, esmClass, shortMessage }) => {
          const body = esmClass === 0 ? shortMessage : parseHeader(shortMessage)!.rest
          return decodeText(body, dataCoding)
        })
        expect(read.join('')).toBe(text)
      }),
    )
  })
})

describe('a user data header', () => {
  it.each([
    ['with a reference of 8 bits', [5, 0, 3, 9, 2, 1, 65], { reference: 9, parts: 2, part: 1 }],
    ['with a reference of 16 bits', [6, 8, 4, 1, 2, 3, 2, 65], { reference: 258, parts: 3, part: 2 }],
    ['after another element', [9, 5, 2, 1, 1, 0, 3, 9, 2, 1, 65], { reference: 9, parts: 2, part: 1 }],
    ['about something else', [4, 5, 2, 1, 1, 65], null],
    ['that is empty', [0, 65], null],
  ])('%s', (_, octets, concatenation) => {
    const read = parseHeader(Uint8Array.from(octets))
    expect(read?.concatenation).toEqual(concatenation)
    expect(Array.from(read!.rest)).toEqual([65])
  })

  it.each([[[]], [[5, 0, 3]], [[3, 0, 9, 1]]])('longer than its octets is invalid: %j', (octets) => {
    expect(parseHeader(Uint8Array.from(octets))).toBeNull()
  })

  it('never throws for hostile octets', () => {
    fc.assert(fc.property(fc.uint8Array(), (octets) => void parseHeader(octets)))
  })
})

describe('an inbound text', () => {
  it.each([
    ['GSM 03.38', 0, [0x1b, 0x65, 0x11], '€_'],
    ['ASCII', 1, [0x5f, 0x40], '_@'],
    ['Latin-1', 3, [0xe9], 'é'],
    ['UCS-2', 8, [0x04, 0x21, 0xd8, 0x3d, 0xde, 0x00], 'С😀'],
    ['UCS-2 of an odd length', 8, [0x04, 0x21, 0x04], 'С'],
    ['half a surrogate pair', 8, [0xd8, 0x3d], '\ufffd'],
    // The octets are those of the code tables of ISO/IEC 8859-5 and -8, JIS X 0208 in Shift_JIS, and
    // KS X 1001 in EUC-KR.
    ['ISO 8859-5', 6, [0xc1, 0xc2, 0xbe, 0xbf], 'СТОП'],
    ['ISO 8859-5 in lower case', 6, [0xe1, 0xe2, 0xde, 0xdf], 'стоп'],
    ['ISO 8859-8', 7, [0xf9, 0xec, 0xe5, 0xed], 'שלום'],
    ['JIS in Shift_JIS', 5, [0x92, 0xe2, 0x8e, 0x7e], '停止'],
    ['ISO-2022-JP', 10, [0x1b, 0x24, 0x42, 0x44, 0x64, 0x3b, 0x5f, 0x1b, 0x28, 0x42], '停止'],
    ['JIS in EUC-JP', 13, [0xc4, 0xe4, 0xbb, 0xdf], '停止'],
    ['KS C 5601', 14, [0xc1, 0xdf, 0xc1, 0xf6], '중지'],
    ['GSM 03.38 with a waiting indication', 0xc8, [0x53, 0x54, 0x4f, 0x50], 'STOP'],
    ['UCS-2 with a waiting indication', 0xe0, [0x04, 0x21], 'С'],
    ['GSM 03.38 with a class', 0xf1, [0x11], '_'],
    ['UCS-2 with a class', 0x18, [0x04, 0x21], 'С'],
  ])('%s', (_, dataCoding, octets, text) => {
    expect(decodeText(Uint8Array.from(octets), dataCoding)).toBe(text)
  })

  it.each([2, 4, 9, 11, 12, 15, 0x20, 0xf5, 99])('with data_coding %i cannot be decoded', (dataCoding) => {
    expect(decodeText(Uint8Array.from([65]), dataCoding)).toBeNull()
  })
})

it.each([
  [1, '000000000001000R'],
  [0.2, '000000000001000R'],
  [3725, '000000010205000R'],
  [93_600, '000001020000000R'],
  [1e12, '000098235959000R'],
])('%d seconds are %s', (seconds, text) => {
  expect(relativeTime(seconds)).toBe(text)
})

it.each([
  ['HUB', true],
  ['2-GIS', true],
  ['7900', false],
  ['+79001234567', false],
])('sender %s: name %s', (sender, expected) => {
  expect(isAlphanumeric(sender)).toBe(expected)
})
