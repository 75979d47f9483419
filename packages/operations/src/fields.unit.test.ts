import { Schema } from 'effect'
import { assert, describe, it } from 'vitest'
import { Line, publicId, Reason, Timestamp } from './fields.ts'

describe('fields', () => {
  it('accept public ids of their kind only', () => {
    const isAccount = Schema.is(publicId('acc'))
    assert.isTrue(isAccount('acc_01m7yt89qhe54swwc8wkxj6n8e'))
    for (const other of ['msg_01m7yt89qhe54swwc8wkxj6n8e', 'acc_', 'acc_01m7', ''])
      assert.isFalse(isAccount(other))
  })

  it('accept timestamps in UTC only', () => {
    const isTimestamp = Schema.is(Timestamp)
    assert.isTrue(isTimestamp('2026-11-21T10:00:00.000Z'))
    for (const other of ['2026-11-21', '2026-11-21T10:00:00+03:00', 'now']) assert.isFalse(isTimestamp(other))
  })

  it('accept one line of at most 200 characters', () => {
    const isLine = Schema.is(Line)
    for (const line of ['x', 'Её имя', 'Ж'.repeat(200)]) assert.isTrue(isLine(line))
    for (const other of ['', '  ', 'two\nlines', 'bell \u0007', 'a\u0000b', 'a\u001b[31m', 'x'.repeat(201)])
      assert.isFalse(isLine(other))
  })

  it('accept a reason without a phone number, with a plus or without', () => {
    const isReason = Schema.is(Reason)
    assert.isTrue(isReason('Ticket 4711 of 2026-11-21'))
    for (const other of ['', 'Call of +79001234567', 'Call of 79001234567']) assert.isFalse(isReason(other))
  })

  it('accept no reason with a phone number as people write it, because the audit trail keeps it for good', () => {
    const isReason = Schema.is(Reason)
    for (const written of ['+7 900 123-45-67', '8 (900) 123-45-67', '+7\u00a0900\u00a0123\u201345\u201367']) {
      assert.isFalse(isReason(`Call of ${written} on Monday`), written)
    }
    for (const other of [
      'Ticket 4711-9001234567',
      'Tickets 79, 80 and 9001',
      '2026-11-26 18:00',
      'msg_79001234567a',
    ]) {
      assert.isTrue(isReason(other), other)
    }
  })

  // The characters: Unicode, property Default_Ignorable_Code_Point, and category Zs.
  it('accept no line that nobody can read', () => {
    const isLine = Schema.is(Line)
    const invisible = [
      '\u200b', '\u200b\u200c\u200d', '\u2060', '\ufeff', '\u00ad', '\u034f', '\u115f', '\u3164', '\uffa0', '\u17b4',
      '\ufe0f', '\u{e0001}', '\u{e0100}', '\u00a0', '\u2003', '\u3000', '\u2800', '\u202e', '.', '---',
    ] // prettier-ignore
    for (const text of invisible) {
      assert.isFalse(isLine(text), JSON.stringify(text))
      assert.isFalse(isLine(` ${text}${text} `), JSON.stringify(text))
    }
    for (const text of ['Тикет 7', '工单', 'تذكرة', '👍 ok']) assert.isTrue(isLine(text), text)
  })

  // The judge is ICU, which writes the number in the digits of each numbering system of Unicode CLDR.
  it.each(Intl.supportedValuesOf('numberingSystem'))(
    'accept no phone number in the digits of %s',
    (system) => {
      const digits = new Intl.NumberFormat('en', { numberingSystem: system, useGrouping: false })
      const isReason = Schema.is(Reason)
      for (const number of [79001234567, 89001234567]) {
        assert.isFalse(isReason(`Call of ${digits.format(number)} on Monday`), digits.format(number))
      }
      const [area, rest] = [digits.format(900), digits.format(1234567)]
      assert.isFalse(isReason(`Call of +${digits.format(7)} ${area} ${rest}`))
      assert.isTrue(isReason(`Ticket ${digits.format(4711)}`))
    },
  )

  it('accept no phone number in other forms, or with invisible characters', () => {
    const isReason = Schema.is(Reason)
    for (const written of [
      '＋７９００１２３４５６７',
      '⑦⑨⓪⓪①②③④⑤⑥⑦',
      '⁷⁹⁰⁰¹²³⁴⁵⁶⁷',
      '7\u200b900\u200b1234567',
      '7\u00ad9\u00ad0\u00ad0\u00ad1\u00ad2\u00ad3\u00ad4\u00ad5\u00ad6\u00ad7',
      '8 ９00 ١٢٣ 45 67',
      '+7−900−123−45−67',
    ]) {
      assert.isFalse(isReason(`Call of ${written} on Monday`), written)
    }
  })
})
