/** Encodes PDUs: all PDUs of a turn into one buffer, which is one write to the socket. */
import type { Content, Tlv, Value } from './content.ts'
import {
  type Command,
  commandOf,
  definitionOf,
  type FieldKind,
  type FieldName,
  TLV_HEADER_OCTETS,
  HEADER_OCTETS,
  tlvOf,
} from './definitions.ts'

/** Mandatory fields and TLVs. Fields without a value are 0 or empty. Texts have one character per octet. */
export type Fields = Readonly<Partial<Record<FieldName, Value>>>

/** Holds one submit. The buffer doubles for more of them. */
const INITIAL_OCTETS = 256

const NO_OCTETS = new Uint8Array()
const DEFAULTS: Readonly<Record<FieldKind, Value>> = { octet: 0, text: '', message: NO_OCTETS }

const sizeOf = (value: Value): number => (typeof value === 'number' ? 1 : value.length + 1)

/** Writes a mandatory field. Returns the position after it. */
const writeField = (kind: FieldKind, value: Value, buffer: Buffer, at: number): number => {
  if (kind === 'octet' && typeof value === 'number') return buffer.writeUInt8(value, at)
  if (kind === 'text' && typeof value === 'string') {
    if (value.includes('\0')) throw new RangeError('a text contains NUL')
    return buffer.writeUInt8(0, at + buffer.write(value, at, 'latin1'))
  }
  if (kind === 'message' && value instanceof Uint8Array) {
    buffer.set(value, buffer.writeUInt8(value.length, at))
    return at + 1 + value.length
  }
  throw new TypeError(`a field of the kind ${kind} has a ${typeof value}`)
}

const tlvOctets = (name: string, value: Value): Tlv => {
  const tlv = tlvOf(name)
  if (tlv === null) throw new TypeError(`the PDU has no field ${name}`)
  const { kind, tag } = tlv
  if (typeof value !== 'number') {
    return { tag, octets: typeof value === 'string' ? Buffer.from(`${value}\0`, 'latin1') : value }
  }
  const octets = Buffer.alloc(typeof kind === 'number' ? kind : 0)
  octets.writeUIntBE(value, 0, octets.length)
  return { tag, octets }
}

/** Makes a PDU from its fields and TLVs by name. */
export const makeContent = (command: Command, sequence: number, fields: Fields = {}, status = 0): Content => {
  const { fields: mandatory, hasNoBodyOnError, id } = definitionOf(command)
  if (status !== 0 && hasNoBodyOnError === true) {
    return { id, status, sequence, values: [], tlvs: [], rest: NO_OCTETS }
  }
  const named: Readonly<Record<string, Value>> = fields
  const names = new Set<string>(mandatory.map(([name]) => name))
  return {
    id,
    status,
    sequence,
    values: mandatory.map(([name, kind]) => named[name] ?? DEFAULTS[kind]),
    tlvs: Object.entries(named).flatMap(([name, value]) => (names.has(name) ? [] : [tlvOctets(name, value)])),
    rest: NO_OCTETS,
  }
}

/** Collects the PDUs of a turn. */
interface PduWriter {
  /** Throws if a value cannot be encoded. Nothing of this PDU is written then. */
  readonly add: (content: Content) => void
  /** The number of collected octets. */
  readonly octets: () => number
  /** Returns the collected octets and begins again. */
  readonly take: () => Buffer
}

export const makePduWriter = (): PduWriter => {
  let buffer = Buffer.alloc(0)
  let end = 0

  const reserve = (octets: number): void => {
    if (end + octets <= buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(INITIAL_OCTETS, 2 * buffer.length, end + octets))
    buffer.copy(larger, 0, 0, end)
    buffer = larger
  }

  return {
    add: ({ id, rest, sequence, status, tlvs, values }) => {
      const command = commandOf(id)
      const fields = command === null ? [] : definitionOf(command).fields
      let length = HEADER_OCTETS + rest.length
      for (const value of values) length += sizeOf(value)
      for (const { octets } of tlvs) length += TLV_HEADER_OCTETS + octets.length
      reserve(length)
      let at = end
      for (const word of [length, id, status, sequence]) at = buffer.writeUInt32BE(word, at)
      for (const [i, value] of values.entries()) at = writeField(fields[i]![1], value, buffer, at)
      for (const { octets, tag } of tlvs) {
        at = buffer.writeUInt16BE(octets.length, buffer.writeUInt16BE(tag, at))
        buffer.set(octets, at)
        at += octets.length
      }
      buffer.set(rest, at)
      end = at + rest.length
    },
    octets: () => end,
    take: () => {
      const taken = buffer.subarray(0, end)
      // The socket may still hold this buffer, so the next turn gets another one.
      buffer = Buffer.alloc(0)
      end = 0
      return taken
    },
  }
}

/** Encodes one PDU. */
export const encodePdu = (command: Command, sequence: number, fields?: Fields, status?: number): Buffer => {
  const writer = makePduWriter()
  writer.add(makeContent(command, sequence, fields, status))
  return writer.take()
}
