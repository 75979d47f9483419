import { describe, expect, it } from 'vitest'
import { findEncodings, findLeaks, needlesOfNumber, needlesOfText } from './secret-search.ts'

const NUMBER = '+79161837465'
const DIGITS = '79161837465'
const CODE = 'Ваш код QX7K2M9ZP4'
type Case = [name: string, planted: Buffer]
const embed = (bytes: Buffer | string) =>
  Buffer.concat([Buffer.from('text before '), Buffer.from(bytes as string), Buffer.from(' and after')])

describe('secret search', () => {
  it.each<Case>([
    ['in plain text', Buffer.from(`{"to":"${NUMBER}"}`)],
    ['without its plus', Buffer.from(DIGITS)],
    ['with the prefix 8', Buffer.from(`8${DIGITS.slice(1)}`)],
    ['in UTF-16', Buffer.from(NUMBER, 'utf16le')],
    ['in big-endian UTF-16', Buffer.from(NUMBER, 'utf16le').swap16()],
    ['in hexadecimal', Buffer.from(Buffer.from(NUMBER).toString('hex').toUpperCase())],
    ...[0, 1, 2, 3, 4, 5].map(
      (offset) =>
        [
          `in base64 at offset ${offset}`,
          Buffer.from(Buffer.from('x'.repeat(offset) + NUMBER + ' and more').toString('base64')),
        ] satisfies Case,
    ),
    ['in a URL', Buffer.from(encodeURIComponent(NUMBER))],
    ['reversed', Buffer.from(NUMBER.split('').toReversed().join(''))],
    ['in semi-octets', Buffer.from('9761817364f5', 'hex')],
  ])('finds a number %s', (_name, bytes) => {
    expect(findEncodings(embed(bytes), needlesOfNumber(NUMBER))).not.toEqual([])
  })

  it.each<Case>([
    ['in plain text', Buffer.from(CODE)],
    ['in UTF-16', Buffer.from(CODE, 'utf16le').swap16()],
    [
      'escaped in JSON',
      Buffer.from(
        JSON.stringify(CODE).replace(
          /[^\x20-\x7e]/gu,
          (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`,
        ),
      ),
    ],
    ['in a lower-case URL', Buffer.from(encodeURIComponent(CODE).toLowerCase())],
    ['in hexadecimal', Buffer.from(Buffer.from(CODE).toString('hex'))],
    ...[0, 1, 2].map(
      (offset) =>
        [
          `in base64url at offset ${offset}`,
          Buffer.from(Buffer.concat([Buffer.alloc(offset, 1), Buffer.from(CODE)]).toString('base64url')),
        ] satisfies Case,
    ),
  ])('finds a text %s', (_name, bytes) => {
    expect(findEncodings(embed(bytes), needlesOfText(CODE))).not.toEqual([])
  })

  it('does not report another number, a mask or a hash', () => {
    const clean = Buffer.from(
      `+79161837466 +7916***7465 ${'ab'.repeat(32)} ${Buffer.from('+79161837466').toString('base64')}`,
    )
    expect(findEncodings(clean, needlesOfNumber(NUMBER))).toEqual([])
    expect(findEncodings(clean, needlesOfText(CODE))).toEqual([])
  })

  it('reports each location and encoding once', () => {
    const piece = { where: 'read.messages.sender', bytes: Buffer.from(DIGITS) }
    expect(
      findLeaks([piece, piece, { where: 'elsewhere', bytes: Buffer.from('') }], needlesOfNumber(NUMBER)),
    ).toEqual(['read.messages.sender: utf8', 'read.messages.sender: url', 'read.messages.sender: json'])
  })

  it('refuses a text that is too short', () => {
    expect(() => needlesOfText('4821')).toThrow(RangeError)
  })
})
