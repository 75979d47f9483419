/** Puts messages of several parts together again. */
import type { Pdu } from './codec.ts'

/** Which part of which message a packet is; `null` for a message of one part. */
export interface Concatenation {
  readonly reference: number
  readonly total: number
  /** From 1. */
  readonly sequence: number
}

/** Information elements of concatenated messages, with an 8-bit and a 16-bit reference. Source: 3GPP TS 23.040, 9.2.3.24. */
const CONCATENATED_8 = 0x00
const CONCATENATED_16 = 0x08

/** Reads the user data header, or the optional parameters that say the same. */
export const concatenationOf = (pdu: Pdu): Concatenation | null => {
  for (const element of (pdu.short_message ?? pdu.message_payload)?.udh ?? []) {
    if (element[0] === CONCATENATED_8 && element.length === 5) {
      return { reference: element.readUInt8(2), total: element.readUInt8(3), sequence: element.readUInt8(4) }
    }
    if (element[0] === CONCATENATED_16 && element.length === 6) {
      return {
        reference: element.readUInt16BE(2),
        total: element.readUInt8(4),
        sequence: element.readUInt8(5),
      }
    }
  }
  const { sar_msg_ref_num, sar_segment_seqnum, sar_total_segments } = pdu
  return sar_msg_ref_num === undefined || sar_segment_seqnum === undefined || sar_total_segments === undefined
    ? null
    : { reference: sar_msg_ref_num, total: sar_total_segments, sequence: sar_segment_seqnum }
}

export interface MessagePart {
  readonly to: string
  readonly sender: string
  readonly text: string
  readonly operatorId: string
  readonly concatenation: Concatenation | null
}

export interface AssembledMessage {
  readonly to: string
  readonly text: string
  /** In the order of the parts. */
  readonly operatorIds: ReadonlyArray<string>
}

export interface Reassembly {
  /** Takes a part; answers the message once it is whole. A part that comes again takes the place of the first. */
  readonly add: (part: MessagePart) => AssembledMessage | null
  /** Messages of which parts are missing. */
  readonly unfinished: () => number
}

/** Far more than can be under way at once; what was never finished makes room, oldest first. */
const MAX_UNFINISHED = 10_000

/** Keeps texts only until their messages are whole. */
export const makeReassembly = (): Reassembly => {
  const unfinished = new Map<string, Map<number, MessagePart>>()
  return {
    add: (part) => {
      const { concatenation, operatorId, sender, text, to } = part
      if (concatenation === null || concatenation.total <= 1) return { to, text, operatorIds: [operatorId] }
      const key = [sender, to, concatenation.reference, concatenation.total].join('\n')
      const parts = unfinished.get(key) ?? new Map<number, MessagePart>()
      parts.set(concatenation.sequence, part)
      if (parts.size < concatenation.total) {
        unfinished.set(key, parts)
        if (unfinished.size > MAX_UNFINISHED) {
          for (const oldest of unfinished.keys()) {
            unfinished.delete(oldest)
            break
          }
        }
        return null
      }
      unfinished.delete(key)
      const ordered = [...parts.entries()].sort(([a], [b]) => a - b).map(([, one]) => one)
      return {
        to,
        text: ordered.map((one) => one.text).join(''),
        operatorIds: ordered.map((one) => one.operatorId),
      }
    },
    unfinished: () => unfinished.size,
  }
}
