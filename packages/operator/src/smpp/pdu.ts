/**
 * Encodes and decodes PDUs of SMPP 3.4 with npm `smpp`, and splits a stream into PDUs. The peer is
 * not trusted: lengths are checked before buffering, and an invalid PDU gives `null`.
 */
import { PDU } from 'smpp/lib/pdu.js'

/**
 * The longest PDU in octets, the limit of the codec. A `message_payload` may have 64 kB, but no
 * real text is that long.
 */
export const MAX_PDU_OCTETS = 16_384
const HEADER_OCTETS = 16

/** The codec without its filters, which throw on unknown values. */
class PlainPdu extends PDU {
  override _filter(): void {}
}

/** The known commands. Any other command is `other`. */
const COMMANDS = [
  'bind_receiver',
  'bind_receiver_resp',
  'bind_transmitter',
  'bind_transmitter_resp',
  'bind_transceiver',
  'bind_transceiver_resp',
  'submit_sm',
  'submit_sm_resp',
  'deliver_sm',
  'deliver_sm_resp',
  'data_sm',
  'data_sm_resp',
  'enquire_link',
  'enquire_link_resp',
  'unbind',
  'unbind_resp',
  'generic_nack',
  'alert_notification',
  'outbind',
] as const
export type Command = (typeof COMMANDS)[number]
const known: ReadonlySet<string> = new Set(COMMANDS)

/** A decoded PDU. */
export interface Pdu {
  readonly command: Command | 'other'
  /** `command_status`; 0 is success. */
  readonly status: number
  readonly sequence: number
  /** All octets. */
  readonly frame: Uint8Array
  /** True for a response, also to an unknown command. */
  readonly isResponse: boolean
  /** A field or TLV by its name in the SMPP specification. */
  readonly text: (field: string) => string
  readonly number: (field: string) => number | null
  readonly octets: (field: string) => Uint8Array | null
}

export type Fields = Readonly<Record<string, string | number | Uint8Array>>

/** Encodes a PDU. Texts are ASCII. `short_message` has at most 254 octets. */
export const encodePdu = (command: Command, sequence: number, fields: Fields = {}, status = 0): Buffer =>
  new PlainPdu(command, { ...fields, sequence_number: sequence, command_status: status }).toBuffer()

/** Decodes one PDU. Returns `null` if its content does not fit its length. */
export const decodePdu = (frame: Buffer): Pdu | null => {
  const sequence = frame.readUInt32BE(12)
  let read: PDU
  try {
    read = new PlainPdu(frame)
  } catch {
    return null
  }
  const value = (field: string): unknown => (Object.hasOwn(read, field) ? read[field] : undefined)
  const command = read['command'] as string
  return {
    command: known.has(command) ? (command as Command) : 'other',
    status: frame.readUInt32BE(8),
    sequence,
    frame,
    isResponse: (frame.readUInt32BE(4) & 0x8000_0000) !== 0,
    text: (field) => {
      const found = value(field)
      return typeof found === 'string' ? found : ''
    },
    number: (field) => {
      const found = value(field)
      return typeof found === 'number' ? found : null
    },
    octets: (field) => {
      const found = value(field)
      return found instanceof Uint8Array ? found : null
    },
  }
}

/** Splits a stream into PDUs and buffers the rest while the reader pauses. */
interface Frames {
  readonly push: (chunk: Buffer) => void
  /** The next PDU, `null` if incomplete, `'malformed'` forever after an invalid length. */
  readonly next: () => Buffer | null | 'malformed'
  /** The number of buffered octets. */
  readonly buffered: () => number
}

export const makeFrames = (): Frames => {
  let chunks: Array<Buffer> = []
  let buffered = 0
  let malformed = false
  const joined = (): Buffer => {
    if (chunks.length !== 1) chunks = [Buffer.concat(chunks)]
    return chunks[0]!
  }
  return {
    push: (chunk) => {
      if (malformed) return
      chunks.push(chunk)
      buffered += chunk.length
    },
    next: () => {
      if (malformed) return 'malformed'
      if (buffered < 4) return null
      const first = chunks[0]!.length >= 4 ? chunks[0]! : joined()
      const length = first.readUInt32BE(0)
      if (length < HEADER_OCTETS || length > MAX_PDU_OCTETS) {
        malformed = true
        chunks = []
        buffered = 0
        return 'malformed'
      }
      if (buffered < length) return null
      const all = joined()
      buffered -= length
      chunks = buffered === 0 ? [] : [all.subarray(length)]
      return all.subarray(0, length)
    },
    buffered: () => buffered,
  }
}

/** The highest sequence number. After it they start again at 1. Source: SMPP 3.4, 3.2. */
export const MAX_SEQUENCE = 0x7fff_ffff

/** Returns the next sequence number that no outstanding request uses. */
export const nextSequence = (last: number, isTaken: (sequence: number) => boolean): number => {
  let next = last
  do next = next >= MAX_SEQUENCE ? 1 : next + 1
  while (isTaken(next))
  return next
}
