import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_ERRORS, type SmppErrors } from './errors.ts'
import { decodePdu, encodePdu, type Fields } from './pdu/index.ts'
import {
  isIntermediate,
  isReceipt,
  outcomeOf,
  readReceipt as readWithErrors,
  receiptFields,
  reportedId,
} from './receipt.ts'

const deliver = (fields: Fields) => decodePdu(encodePdu('deliver_sm', 1, fields))!
const readReceipt = (pdu: Parameters<typeof readWithErrors>[0]) => {
  const read = readWithErrors(pdu, DEFAULT_ERRORS)
  return 'field' in read ? null : read
}
const receiptPdu = (text: string, fields: Fields = {}) =>
  deliver({ esm_class: 4, short_message: Buffer.from(text), ...fields })

const USUAL =
  'id:0123456789 sub:001 dlvrd:001 submit date:2611211300 done date:2611211301 stat:DELIVRD err:000 text:Your code'

describe('a textual receipt', () => {
  it('is parsed', () => {
    expect(readReceipt(receiptPdu(USUAL))).toEqual({
      ids: ['0123456789'],
      states: ['DELIVRD'],
      error: '0',
      doneAt: Date.UTC(2026, 10, 21, 13, 1),
    })
  })

  it('is parsed in any order and case, with seconds, commas, spaces and missing fields', () => {
    expect(
      readReceipt(receiptPdu('Stat: undeliv, ERR:0b1, doneDate:20261121130159, ID: e2c5-6db5;dlvrd:000')),
    ).toEqual({
      ids: ['e2c5-6db5'],
      states: ['UNDELIV'],
      error: 'B1',
      doneAt: Date.UTC(2026, 10, 21, 13, 1, 59),
    })
    expect(readReceipt(receiptPdu('id:1 stat:EXPIRED'))).toEqual({
      ids: ['1'],
      states: ['EXPIRED'],
      error: null,
      doneAt: null,
    })
  })

  it('is parsed with an empty field, and with an id whose characters have other codes in GSM 03.38', () => {
    expect(receiptFields('id: sub:001 stat:').get('id')).toBe('')
    expect(readReceipt(receiptPdu('id: stat:DELIVRD'))).toBeNull()
    expect(readReceipt(receiptPdu('id:a_b@c$1 stat:DELIVRD'))?.ids).toEqual(['a_b@c$1'])
  })

  it('ignores fields in the quoted message', () => {
    expect(receiptFields('id:1 stat:UNDELIV err:001 text:id:2 stat:DELIVRD').get('stat')).toBe('UNDELIV')
    expect(receiptFields('id:1 stat:UNDELIV Text: stat:DELIVRD id:2').get('id')).toBe('1')
    expect(readReceipt(receiptPdu('text:id:2 stat:DELIVRD'))).toBeNull()
  })

  it('is parsed in UCS-2 and after a user data header', () => {
    const ucs2 = Buffer.from('id:1 stat:DELIVRD', 'utf16le').swap16()
    expect(readReceipt(receiptPdu('', { short_message: ucs2, data_coding: 8 }))?.states).toEqual(['DELIVRD'])
    const behind = Buffer.concat([Buffer.from([5, 0, 3, 1, 1, 1]), Buffer.from('id:1 stat:READ')])
    expect(readReceipt(receiptPdu('', { short_message: behind, esm_class: 0x44 }))?.states).toEqual(['READ'])
    expect(
      readReceipt(deliver({ esm_class: 4, message_payload: Buffer.from('id:1 stat:REJECTD') }))?.states,
    ).toEqual(['REJECTD'])
  })

  it.each(['', 'id:1', 'stat:DELIVRD', 'hello', 'id: stat:'])('is not found in %j', (text) => {
    expect(readReceipt(receiptPdu(text))).toBeNull()
  })

  it.each(['2602301200', '2613011200', '2611212500', '0', 'yesterday'])('has no date in %s', (date) => {
    expect(readReceipt(receiptPdu(`id:1 done date:${date} stat:DELIVRD`))?.doneAt).toBeNull()
  })

  it('never throws and is fast for any content', () => {
    const words = fc.constantFrom(
      'id:',
      'stat:',
      'text:',
      'done date:',
      ' ',
      '\t',
      'submit  date :',
      'é',
      '\0',
      ':',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: words, maxLength: 60 }),
          // Octets, because fast-check needs seconds to prepare the texts of all characters.
          fc.uint8Array({ maxLength: 120 }).map((octets) => Buffer.from(octets).toString('latin1')),
        ),
        (text) => {
          const octets = Buffer.from(text, 'latin1').subarray(0, 250)
          for (const data_coding of [0, 3, 8]) {
            const parsed = readReceipt(receiptPdu('', { short_message: octets, data_coding }))
            if (parsed !== null) outcomeOf(parsed, DEFAULT_ERRORS)
          }
        },
      ),
    )
  })
})

describe('a receipt in TLVs', () => {
  it('takes precedence over the text', () => {
    const receipt = readReceipt(
      receiptPdu(USUAL, {
        receipted_message_id: 'abc',
        message_state: 5,
        network_error_code: Buffer.from([3, 1, 2]),
      }),
    )
    expect(receipt).toMatchObject({ ids: ['abc', '0123456789'], states: ['5', 'DELIVRD'], error: '0' })
  })

  it('needs no text', () => {
    const pdu = deliver({
      receipted_message_id: 'abc',
      message_state: 5,
      network_error_code: Buffer.from([3, 1, 2]),
    })
    expect(isReceipt(pdu)).toBe(true)
    expect(readReceipt(pdu)).toEqual({ ids: ['abc'], states: ['5'], error: '258', doneAt: null })
  })
})

describe('a receipt that cannot be understood', () => {
  // The state may be anything, so only a word of letters or the number of the TLV is named.
  it.each([
    ['hello', {}, { field: 'id', value: null }],
    ['id:1', {}, { field: 'stat', value: null }],
    ['id:1 stat:FANCY', {}, { field: 'stat', value: 'FANCY' }],
    ['id:1 stat:79001234567', {}, { field: 'stat', value: null }],
    ['id:1 stat:79001234567', { message_state: 0x20 }, { field: 'stat', value: '32' }],
    ['id:1 stat:Ivan@example.org', {}, { field: 'stat', value: null }],
  ])('%s %j', (text, fields, expected) => {
    expect(readWithErrors(receiptPdu(text, fields), DEFAULT_ERRORS)).toEqual(expected)
  })

  it('can be understood with a configured state', () => {
    const errors = { ...DEFAULT_ERRORS, receiptState: new Map([['FANCY', 'expired']] as const) }
    const read = readWithErrors(receiptPdu('id:1 stat:fancy'), errors)
    expect('field' in read ? read : outcomeOf(read, errors)).toEqual({ outcome: 'expired', reason: null })
  })
})

describe('the type of a delivery', () => {
  it.each([
    [0x00, false],
    [0x40, false],
    [0x04, true],
    [0x44, true],
    [0x08, true],
    [0x10, true],
    [0x20, true],
    [0x0c, true],
    [0x24, true],
    [0x18, false],
  ])('esm_class %i: %s', (esm_class, expected) => {
    expect(isReceipt(receiptPdu(USUAL, { esm_class }))).toBe(expected)
  })

  it('is intermediate if esm_class says so', () => {
    expect(isIntermediate(receiptPdu(USUAL, { esm_class: 0x20 }))).toBe(true)
    expect(isIntermediate(receiptPdu(USUAL))).toBe(false)
  })

  it('is a read receipt if the recipient confirmed the message', () => {
    expect(readReceipt(deliver({ esm_class: 0x10, receipted_message_id: '7' }))).toMatchObject({
      states: ['READ'],
    })
  })
})

describe('the outcome of a receipt', () => {
  const meaning = (state: string, error: string | null = null, errors: SmppErrors = DEFAULT_ERRORS) => {
    const outcome = outcomeOf({ ids: ['1'], states: [state], error, doneAt: null }, errors)
    return outcome === 'intermediate' ? outcome : [outcome.outcome, outcome.reason]
  }

  it.each([
    ['DELIVRD', ['delivered', null]],
    ['2', ['delivered', null]],
    ['UNDELIV', ['undelivered', 'delivery_failed']],
    ['5', ['undelivered', 'delivery_failed']],
    ['REJECTD', ['rejected', 'operator_rejected']],
    ['8', ['rejected', 'operator_rejected']],
    ['EXPIRED', ['expired', null]],
    ['3', ['expired', null]],
    ['DELETED', ['undelivered', 'delivery_failed']],
    ['UNKNOWN', ['undelivered', 'delivery_failed']],
    ['SEEN', ['seen', null]],
    ['READ', ['seen', null]],
    ['ENROUTE', 'intermediate'],
    ['ACCEPTD', 'intermediate'],
    ['1', 'intermediate'],
    ['FAILED', ['undelivered', 'delivery_failed']],
    ['BUFFRED', 'intermediate'],
  ])('%s', (state, expected) => {
    expect(meaning(state)).toEqual(expected)
  })

  it('depends on a configured error code if the message failed', () => {
    const errors: SmppErrors = {
      ...DEFAULT_ERRORS,
      receiptError: new Map([
        ['1', 'recipient_nonexistent'],
        ['B1', 'spam_filter_content'],
      ]),
    }
    expect(meaning('UNDELIV', '1', errors)).toEqual(['undelivered', 'recipient_nonexistent'])
    expect(meaning('UNDELIV', 'B1', errors)).toEqual(['rejected', 'spam_filter_content'])
    expect(meaning('REJECTD', '1', errors)).toEqual(['undelivered', 'recipient_nonexistent'])
    expect(meaning('UNDELIV', '2', errors)).toEqual(['undelivered', 'delivery_failed'])
    expect(meaning('DELIVRD', '1', errors)).toEqual(['delivered', null])
  })

  it.each([
    ['hexadecimal_answer', ['255'], '255'],
    ['hexadecimal_answer', ['ff', '0255'], '255'],
    ['hexadecimal_answer', ['10', '16'], '16'],
    ['hexadecimal_answer', ['ff'], '255'],
    ['hexadecimal_answer', ['255', 'other'], '255'],
    ['decimal_answer', ['255', 'ff'], '255'],
    ['opaque', ['ff', '255'], 'ff'],
  ] as const)('has the id of the answer: %s, %j', (format, ids, expected) => {
    expect(reportedId({ ids, states: ['2'], error: null, doneAt: null }, format)).toBe(expected)
  })
})
