/**
 * PDUs of SMPP 3.4, by the codec of npm `smpp`, and how they are cut out of a stream. The peer is not trusted: a length
 * is checked before anything is kept for it, and what cannot be read is `null`, never an exception.
 */
import { PDU } from 'smpp/lib/pdu.js'

/**
 * The longest PDU, octets. A deliver_sm with a short message has less than 500; a message_payload may have 64 kB, but a
 * text of the longest message that a telephone can send (255 parts) has 36 kB and no service reads such a thing. The
 * codec takes no more than this.
 */
export const MAX_PDU_OCTETS = 16_384
const HEADER_OCTETS = 16

/** The codec without its filters: they decode texts and dates by rules of their own, and throw on what they do not know. */
class PlainPdu extends PDU {
  override _filter(): void {}
}

/** Commands that are written or read here; any other name is `other`. */
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

/** A PDU that was read. */
export interface Pdu {
  readonly command: Command | 'other'
  /** `command_status`; 0 is success. */
  readonly status: number
  readonly sequence: number
  /** True for answers, also of commands that are not known here. */
  readonly isResponse: boolean
  /** A field or TLV by the name it has in the specification of SMPP. */
  readonly text: (field: string) => string
  readonly number: (field: string) => number | null
  readonly octets: (field: string) => Uint8Array | null
}

export type Fields = Readonly<Record<string, string | number | Uint8Array>>

/** The octets of a PDU. Texts are ASCII; `short_message` is octets, at most 254 of them. */
export const encodePdu = (command: Command, sequence: number, fields: Fields = {}, status = 0): Buffer =>
  new PlainPdu(command, { ...fields, sequence_number: sequence, command_status: status }).toBuffer()

/** Reads one PDU, or says `null` when its inside does not fit its length. */
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

/** Cuts PDUs out of a stream, one at a time, so that a reader that must wait leaves the rest where it is. */
export interface Frames {
  readonly push: (chunk: Buffer) => void
  /** The next whole PDU, `null` until there is one, or `'malformed'` for good: nothing after a wrong length can be found. */
  readonly next: () => Buffer | null | 'malformed'
  /** Octets that wait. */
  readonly held: () => number
}

export const makeFrames = (): Frames => {
  let chunks: Array<Buffer> = []
  let held = 0
  let malformed = false
  const joined = (): Buffer => {
    if (chunks.length !== 1) chunks = [Buffer.concat(chunks)]
    return chunks[0]!
  }
  return {
    push: (chunk) => {
      if (malformed) return
      chunks.push(chunk)
      held += chunk.length
    },
    next: () => {
      if (malformed) return 'malformed'
      if (held < 4) return null
      const first = chunks[0]!.length >= 4 ? chunks[0]! : joined()
      const length = first.readUInt32BE(0)
      if (length < HEADER_OCTETS || length > MAX_PDU_OCTETS) {
        malformed = true
        chunks = []
        held = 0
        return 'malformed'
      }
      if (held < length) return null
      const all = joined()
      held -= length
      chunks = held === 0 ? [] : [all.subarray(length)]
      return all.subarray(0, length)
    },
    held: () => held,
  }
}

/** Sequence numbers run from 1 to this and begin again. Source: SMPP 3.4, 3.2. */
export const MAX_SEQUENCE = 0x7fff_ffff

/** The number after this one that no request under way has. */
export const nextSequence = (last: number, isTaken: (sequence: number) => boolean): number => {
  let next = last
  do next = next >= MAX_SEQUENCE ? 1 : next + 1
  while (isTaken(next))
  return next
}
