/** PDUs in octets, written by hand from the tables of SMPP 3.4, sections 4 and 5. */
import { describe, expect, it } from 'vitest'
import { decodePdu } from './decode.ts'

/** A PDU with the right length. */
const pduOf = (id: string, body: string) => {
  const octets = Buffer.from(`00000000${id}0000000000000007${body}`.replaceAll(' ', ''), 'hex')
  octets.writeUInt32BE(octets.length)
  return decodePdu(octets)
}
const hex = (text: string) => Buffer.from(text, 'latin1').toString('hex')

/** service_type, source 1/1 79001234567, destination 5/0 HUB, esm_class 4. */
const ADDRESSES = `00 01 01 ${hex('79001234567')} 00 05 00 ${hex('HUB')} 00 04`
/** Protocol and priority 0, no times, no registered delivery, replace 0, data_coding 3, no stored text. */
const OPTIONS = '00 00 00 00 00 00 03 00'
const deliver = (message: string, tlvs = '') =>
  pduOf('00000005', `${ADDRESSES} ${OPTIONS} ${message} ${tlvs}`)
const HELLO = `05 ${hex('hello')}`

describe('a deliver_sm', () => {
  it('has the fields of the standard', () => {
    const pdu = deliver(HELLO, `001e 0004 ${hex('abc')}00 0427 0001 02 0423 0003 030001`)
    expect([pdu.command, pdu.sequence, pdu.status, pdu.isResponse]).toEqual(['deliver_sm', 7, 0, false])
    expect([pdu.text('source_addr'), pdu.text('destination_addr')]).toEqual(['79001234567', 'HUB'])
    expect([pdu.number('source_addr_ton'), pdu.number('dest_addr_ton')]).toEqual([1, 5])
    expect([pdu.number('esm_class'), pdu.number('data_coding')]).toEqual([4, 3])
    expect(Buffer.from(pdu.octets('short_message')!).toString()).toBe('hello')
    expect(pdu.text('receipted_message_id')).toBe('abc')
    expect(pdu.number('message_state')).toBe(2)
    expect(Array.from(pdu.octets('network_error_code')!)).toEqual([3, 0, 1])
    expect(pdu.rest).toHaveLength(0)
    expect([pdu.text('message_id'), pdu.number('sar_msg_ref_num'), pdu.octets('message_payload')]).toEqual([
      '',
      null,
      null,
    ])
  })

  it('keeps unknown TLVs', () => {
    const pdu = deliver(HELLO, `1403 0002 abcd 001e 0003 ${hex('ab')}00`)
    expect(pdu.tlvs[0]).toEqual({ tag: 0x1403, octets: Buffer.from('abcd', 'hex') })
    expect(pdu.text('receipted_message_id')).toBe('ab')
  })

  it.each([
    ['one octet for two', '0204 0001 09', 9],
    ['one octet for two, at the end', '0204 0001 00', 0],
    ['four octets for two', '0204 0004 00000102', 0x102],
    ['none', '0204 0000', null],
    ['five', '0204 0005 0000000001', null],
  ])('has an integer TLV of another length: %s', (_, tlv, value) => {
    const pdu = deliver(HELLO, `${tlv}`)
    expect(pdu.number('user_message_reference')).toBe(value)
    expect(pdu.text('source_addr')).toBe('79001234567')
    expect(pdu.rest).toHaveLength(0)
  })

  it('has a text TLV without its final NUL, which ends with the TLV', () => {
    const pdu = deliver(HELLO, `001e 0003 ${hex('abc')} 0427 0001 02`)
    expect(pdu.text('receipted_message_id')).toBe('abc')
    expect(pdu.number('message_state')).toBe(2)
  })

  it('has a text TLV with octets after its NUL', () => {
    expect(deliver(HELLO, `001e 0005 ${hex('abc')}00 58`).text('receipted_message_id')).toBe('abc')
  })

  it.each([
    ['a TLV that is longer than the PDU', '0427 0002 02'],
    ['half the header of a TLV', '0427 00'],
    ['one octet', '00'],
  ])('is read up to %s', (_, tlvs) => {
    const pdu = deliver(HELLO, `001e 0003 ${hex('abc')} ${tlvs}`)
    expect(pdu.text('receipted_message_id')).toBe('abc')
    expect(pdu.number('message_state')).toBeNull()
    expect(Buffer.from(pdu.octets('short_message')!).toString()).toBe('hello')
    expect(Buffer.from(pdu.rest).toString('hex')).toBe(tlvs.replaceAll(' ', ''))
  })

  it('has what there is of a text that is longer than the PDU', () => {
    const pdu = deliver(`ff ${hex('hello')}`)
    expect(Buffer.from(pdu.octets('short_message')!).toString()).toBe('hello')
    expect(pdu.octets('message_payload')).toBeNull()
  })

  it('has the fields before its early end', () => {
    const pdu = pduOf('00000005', `00 01 01 ${hex('7900')}`)
    expect([pdu.number('source_addr_ton'), pdu.text('source_addr')]).toEqual([1, '7900'])
    expect([pdu.number('esm_class'), pdu.text('destination_addr'), pdu.octets('short_message')]).toEqual([
      null,
      '',
      null,
    ])
  })
})

describe('a response', () => {
  it.each([
    ['without a body', '', ''],
    ['with an id', `${hex('4711')}00`, '4711'],
    ['with an id without its final NUL', hex('4711'), '4711'],
  ])('%s', (_, body, id) => {
    const pdu = pduOf('80000004', body)
    expect([pdu.command, pdu.isResponse, pdu.text('message_id')]).toEqual(['submit_sm_resp', true, id])
  })

  it('to a bind has an empty version TLV', () => {
    const pdu = pduOf('80000009', `${hex('smsc')}00 0210 0000`)
    expect([pdu.command, pdu.status, pdu.text('system_id')]).toEqual(['bind_transceiver_resp', 0, 'smsc'])
    expect(pdu.number('sc_interface_version')).toBeNull()
  })
})

it('an unknown command is kept as octets', () => {
  const pdu = pduOf('80000007', '01020304')
  expect([pdu.command, pdu.isResponse, pdu.sequence]).toEqual(['other', true, 7])
  expect(Buffer.from(pdu.rest).toString('hex')).toBe('01020304')
})
