/**
 * Decodes PDUs. The SMSC is not trusted: no octets make it fail, and what is unknown or broken is kept as
 * octets. So a wrong PDU of the SMSC can be answered, and does not end the session.
 */
import type { Content, Tlv, Value } from './content.ts'
import {
  type Command,
  commandOf,
  definitionOf,
  type FieldKind,
  type FieldName,
  HEADER_OCTETS,
  TLV_HEADER_OCTETS,
  tlvOf,
} from './definitions.ts'

/** A decoded PDU. */
export interface Pdu extends Content {
  readonly command: Command | 'other'
  /** All octets. */
  readonly frame: Uint8Array
  /** True for a response, also to an unknown command. */
  readonly isResponse: boolean
  /** A text, `''` if there is none. A TLV's text ends at NUL or at the end of the TLV. */
  readonly text: (field: FieldName) => string
  /** An integer, `null` if there is none. A TLV's integer may have any length from 1 to 4 octets. */
  readonly number: (field: FieldName) => number | null
  /** `short_message`, or the octets of a TLV of octets; `null` if there is none. */
  readonly octets: (field: FieldName) => Uint8Array | null
}

interface Read {
  readonly value: Value
  readonly end: number
}

/** Reads the field at `at`. Returns `null` if the PDU ends before the field does. */
const readField = (kind: FieldKind, frame: Buffer, at: number): Read | null => {
  const first = frame[at]
  if (first === undefined) return null
  switch (kind) {
    case 'octet':
      return { value: first, end: at + 1 }
    case 'text': {
      const end = frame.indexOf(0, at)
      return end < 0 ? null : { value: frame.toString('latin1', at, end), end: end + 1 }
    }
    case 'message': {
      const end = at + 1 + first
      return end > frame.length ? null : { value: frame.subarray(at + 1, end), end }
    }
  }
}

/** What there is of a field that goes beyond the end of the PDU. */
const incompleteValue = (kind: FieldKind, rest: Buffer): Value | null => {
  switch (kind) {
    case 'octet':
      return null
    case 'text':
      return rest.toString('latin1')
    case 'message':
      return rest.length === 0 ? null : rest.subarray(1)
  }
}

/** An integer of 1 to 4 octets. Some SMSCs send other lengths than the standard says. */
const integerOf = (octets: Buffer): number | null =>
  octets.length === 0 || octets.length > 4 ? null : octets.readUIntBE(0, octets.length)

const textOf = (octets: Buffer): string => {
  const end = octets.indexOf(0)
  return octets.toString('latin1', 0, end < 0 ? octets.length : end)
}

/** Decodes one PDU of at least 16 octets. */
export const decodePdu = (frame: Buffer): Pdu => {
  const id = frame.readUInt32BE(4)
  const command = commandOf(id)
  const fields = command === null ? [] : definitionOf(command).fields
  const values: Array<Value> = []
  let at = HEADER_OCTETS
  for (const [, kind] of fields) {
    const read = readField(kind, frame, at)
    if (read === null) break
    values.push(read.value)
    at = read.end
  }
  const tlvs: Array<Tlv & { readonly octets: Buffer }> = []
  const hasTlvs = command !== null && values.length === fields.length
  while (hasTlvs && at + TLV_HEADER_OCTETS <= frame.length) {
    const end = at + TLV_HEADER_OCTETS + frame.readUInt16BE(at + 2)
    if (end > frame.length) break
    tlvs.push({ tag: frame.readUInt16BE(at), octets: frame.subarray(at + TLV_HEADER_OCTETS, end) })
    at = end
  }
  const rest = frame.subarray(at)

  const valueOf = (field: FieldName): Value | null => {
    const index = fields.findIndex(([name]) => name === field)
    if (index >= 0) {
      return values[index] ?? (index === values.length ? incompleteValue(fields[index]![1], rest) : null)
    }
    const known = tlvOf(field)
    const octets = tlvs.find(({ tag }) => tag === known?.tag)?.octets
    if (known === null || octets === undefined) return null
    if (known.kind === 'octets') return octets
    return known.kind === 'text' ? textOf(octets) : integerOf(octets)
  }
  return {
    id,
    command: command ?? 'other',
    status: frame.readUInt32BE(8),
    sequence: frame.readUInt32BE(12),
    values,
    tlvs,
    rest,
    frame,
    isResponse: id >= 0x8000_0000,
    text: (field) => {
      const value = valueOf(field)
      return typeof value === 'string' ? value : ''
    },
    number: (field) => {
      const value = valueOf(field)
      return typeof value === 'number' ? value : null
    },
    octets: (field) => {
      const value = valueOf(field)
      return value instanceof Uint8Array ? value : null
    },
  }
}
