/**
 * The `submit_sm` PDUs of long texts. The judges are other implementations: npm `smpp` decodes the
 * PDUs, and npm `split-sms` counts characters and parts.
 */
import fc from 'fast-check'
import { PDU } from 'smpp/lib/pdu.js'
import * as splitSms from 'split-sms'
import { expect, it } from 'vitest'
import { submissionOf } from '../port.contract.ts'
import { encodePdu } from './pdu/index.ts'
import { submitSmFields } from './submit-sm.ts'
import { segmentsOf } from './text.ts'

const TEXTS = 10_000

/** What npm `smpp` decodes from a `submit_sm`: the header's elements, and the text. */
interface ForeignMessage {
  readonly udh?: ReadonlyArray<Buffer>
  readonly message: string
}

/** Encodes a text as the adapter does, and decodes its PDUs with the other implementation. */
const foreignPartsOf = (text: string, reference: number) =>
  segmentsOf(text, () => reference).map((segment, i) => {
    const fields = submitSmFields(submissionOf('msg_a', { text }), segment, 300, { ton: 1, npi: 1 })
    const pdu = new PDU(encodePdu('submit_sm', i + 1, fields))
    return {
      dataCoding: pdu['data_coding'],
      esmClass: pdu['esm_class'],
      octets: segment.shortMessage.length,
      ...(pdu['short_message'] as ForeignMessage),
    }
  })

/**
 * The octets of the user data on the radio path, with its header. Source: 3GPP TS 23.040, 9.2.3.24:
 * septets are packed, and begin at a multiple of seven bits after the header.
 */
const userDataOctets = (isUcs2: boolean, headerOctets: number, octets: number): number =>
  isUcs2 ? headerOctets + octets : Math.ceil(((Math.ceil((headerOctets * 8) / 7) + octets) * 7) / 8)

const GSM = Array.from(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
)
const EXTENSION = Array.from('\f^{}\\[~]|€')
const OTHER = ['я', 'Ж', '№', '漢', '😀', '👩‍👩‍👧', '🇷🇺', '\u0301', 'ç', '`']
/** Lengths around the ends of the first parts. */
const BORDERS = [
  66, 67, 68, 69, 70, 71, 133, 134, 135, 152, 153, 154, 159, 160, 161, 200, 201, 305, 306, 307, 459,
]

const textOf = (characters: ReadonlyArray<string>) =>
  fc.string({ unit: fc.constantFrom(...characters), minLength: 1, maxLength: 300 })
const atBorder = (filler: string, characters: ReadonlyArray<string>) =>
  fc
    .tuple(
      fc.constantFrom(...BORDERS),
      fc.constantFrom(0, 1, 2),
      fc.constantFrom(...characters),
      textOf([filler, ...characters]),
    )
    .map(([length, before, character, rest]) => filler.repeat(length - before) + character + rest)

const texts = fc.oneof(
  textOf([...GSM, ...EXTENSION]),
  textOf([...GSM, ...EXTENSION, ...OTHER]),
  atBorder('a', EXTENSION),
  atBorder('я', ['😀', '🇷🇺', 'a', '€']),
  fc.constantFrom('a', 'я', '€', '😀').chain((one) => fc.nat(700).map((length) => one.repeat(length + 1))),
)

it('a part never has more than 140 octets of user data, and another implementation reads the text', () => {
  let longest = 0
  fc.assert(
    fc.property(texts, fc.integer({ min: 0, max: 255 }), (text, reference) => {
      const expected = splitSms.split(text)
      const isUcs2 = expected.characterSet === 'Unicode'
      const parts = foreignPartsOf(text, reference)
      expect(parts.map(({ message }) => message)).toEqual(expected.parts.map(({ content }) => content))
      expect(parts.map(({ message }) => message).join('')).toBe(text)
      for (const [i, { dataCoding, esmClass, octets, udh }] of parts.entries()) {
        expect(dataCoding).toBe(isUcs2 ? 8 : 0)
        // SMPP 3.4, 5.2.12: 0x40 is the UDH indicator.
        expect(esmClass).toBe(parts.length > 1 ? 0x40 : 0)
        // 3GPP TS 23.040, 9.2.3.24.1: reference, number of parts, number of this part.
        const elements = parts.length > 1 ? [[0, 3, reference, parts.length, i + 1]] : []
        expect((udh ?? []).map((element) => Array.from(element))).toEqual(elements)
        const header = parts.length > 1 ? 1 + elements[0]!.length : 0
        expect(octets - header).toBe(expected.parts[i]!.bytes)
        const all = userDataOctets(isUcs2, header, octets - header)
        expect(all).toBeLessThanOrEqual(140)
        longest = Math.max(longest, all)
      }
    }),
    { numRuns: TEXTS },
  )
  // Otherwise the limit was not tested.
  expect(longest).toBe(140)
})
