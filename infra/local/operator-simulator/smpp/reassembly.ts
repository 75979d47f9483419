/** Reassembles messages of several parts. */
import { evictOldest } from '../evict-oldest.ts'
import type { Pdu } from './codec.ts'

/** The position of a part in its message. */
export interface Concatenation {
  readonly reference: number
  readonly total: number
  /** From 1. */
  readonly sequence: number
}

/** Elements for concatenation with 8-bit and 16-bit references (3GPP TS 23.040, 9.2.3.24). */
const CONCATENATED_8 = 0x00
const CONCATENATED_16 = 0x08

/** Reads the user data header or the optional parameters. Null for a single part. */
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

interface AssembledMessage {
  readonly to: string
  readonly text: string
  /** In the order of the parts. */
  readonly operatorIds: ReadonlyArray<string>
}

export interface Reassembly {
  /** Adds or replaces a part. Returns the message when it is complete. */
  readonly add: (part: MessagePart) => AssembledMessage | null
  /** The number of messages with missing parts. */
  readonly unfinished: () => number
}

/** Bounds the memory: the oldest incomplete message is dropped. Far above any number in flight. */
const MAX_UNFINISHED = 10_000

/** Keeps texts in memory only until their messages are complete. */
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
        evictOldest(unfinished, MAX_UNFINISHED)
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
