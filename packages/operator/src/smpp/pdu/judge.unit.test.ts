/** Compares the codec with another implementation: npm `smpp`. */
import fc from 'fast-check'
import { tlvs as foreignTlvs } from 'smpp/lib/defs.js'
import { PDU } from 'smpp/lib/pdu.js'
import { describe, expect, it } from 'vitest'
import type { Value } from './content.ts'
import { decodePdu } from './decode.ts'
import {
  type Command,
  COMMANDS,
  definitionOf,
  type FieldKind,
  type FieldName,
  type TlvKind,
  TLVS,
} from './definitions.ts'
import { encodePdu, type Fields } from './encode.ts'

/** The other implementation without its conversions of texts and dates. */
class PlainPdu extends PDU {
  override _filter(): void {}
}

/** In npm `smpp` these have other kinds than in SMPP 3.4, 5.3.2, another name, or are lists. */
const DIFFERENT: ReadonlyArray<string> = [
  'alert_on_message_delivery',
  'callback_num',
  'callback_num_atag',
  'callback_num_pres_ind',
  'destination_port',
  'ms_validity',
  'source_telematics_id',
  'ussd_service_op',
]

const text = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
  maxLength: 66,
})
const octets = (maxLength: number) => fc.uint8Array({ maxLength }).map((values) => Buffer.from(values))
const fieldValue = (kind: FieldKind): fc.Arbitrary<Value> =>
  kind === 'octet' ? fc.nat(255) : kind === 'text' ? text : octets(255)
const tlvValue = (kind: TlvKind): fc.Arbitrary<Value> =>
  kind === 'text'
    ? text
    : kind === 'octets'
      ? octets(400)
      : fc.nat(kind === 4 ? 0xffff_ffff : 256 ** kind - 1)

const someTlvs = fc
  .uniqueArray(fc.constantFrom(...Object.entries(TLVS)), { maxLength: 6, selector: ([name]) => name })
  .map((chosen) => chosen.filter(([name]) => !DIFFERENT.includes(name)))
  .chain((chosen) => fc.record(Object.fromEntries(chosen.map(([name, { kind }]) => [name, tlvValue(kind)]))))

const fieldsOf = (command: Command): fc.Arbitrary<Fields> =>
  fc
    .record(Object.fromEntries(definitionOf(command).fields.map(([name, kind]) => [name, fieldValue(kind)])))
    .chain((fields) => someTlvs.map((tlvs): Fields => ({ ...fields, ...tlvs })))

describe.each(Object.keys(COMMANDS) as ReadonlyArray<Command>)('%s', (command) => {
  const { fields: mandatory } = definitionOf(command)
  // npm `smpp` writes no TLVs of PDUs that have no mandatory field.
  const isEmpty = mandatory.length === 0

  it('has the same octets and values as in npm smpp', () => {
    fc.assert(
      fc.property(isEmpty ? fc.constant({}) : fieldsOf(command), fc.nat(0x7fff_ffff), (fields, sequence) => {
        const ours = encodePdu(command, sequence, fields)
        const theirs = new PlainPdu(command, { ...fields, sequence_number: sequence }).toBuffer()
        expect(ours.toString('hex')).toBe(theirs.toString('hex'))
        const [read, judge] = [decodePdu(theirs), new PlainPdu(ours)]
        expect([read.command, read.sequence, read.status]).toEqual([command, sequence, 0])
        expect(judge['command']).toBe(command)
        for (const [name, value] of Object.entries(fields)) {
          expect(judge[name]).toEqual(value)
          const field = name as FieldName
          const accessor =
            typeof value === 'number' ? read.number : typeof value === 'string' ? read.text : read.octets
          expect(accessor(field)).toEqual(value)
        }
      }),
    )
  })
})

it('the TLVs have the tags of npm smpp', () => {
  const theirs = Object.fromEntries(
    Object.keys(TLVS).map((name) => [
      name,
      foreignTlvs[name === 'destination_port' ? 'dest_port' : name]?.id,
    ]),
  )
  expect(Object.fromEntries(Object.entries(TLVS).map(([name, { tag }]) => [name, tag]))).toEqual(theirs)
})

describe('a response with an error', () => {
  it.each([
    'bind_transceiver_resp',
    'bind_transmitter_resp',
    'bind_receiver_resp',
    'submit_sm_resp',
  ] as const)('%s has no body, as in npm smpp', (command) => {
    const theirs = new PlainPdu(command, { sequence_number: 9, command_status: 0x58 }).toBuffer()
    expect(encodePdu(command, 9, {}, 0x58)).toEqual(theirs)
  })

  it('deliver_sm_resp has an empty message_id', () => {
    // SMPP 3.4, 4.6.2: "This field is unused and is set to NULL", also for an error.
    const octets = '0000001180000005000000640000000900'
    expect(encodePdu('deliver_sm_resp', 9, {}, 0x64).toString('hex')).toBe(octets)
  })
})

describe('a value that has no encoding', () => {
  it.each([
    ['a NUL in a text', { source_addr: 'a\0b' }],
    ['an integer above 255 in an octet', { esm_class: 256 }],
    ['a message of more than 255 octets', { short_message: new Uint8Array(256) }],
    ['a TLV of more than 65,535 octets', { message_payload: new Uint8Array(65_536) }],
    ['a text for a number', { esm_class: '1' }],
    ['a field of another PDU', { message_id: '1' }],
  ])('is refused: %s', (_, fields) => {
    expect(() => encodePdu('submit_sm', 1, fields)).toThrow()
  })
})
