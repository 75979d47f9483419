/** Splits a stream into PDUs by their `command_length`. */
import { HEADER_OCTETS } from './definitions.ts'

/**
 * The longest PDU in octets: a `message_payload` of the greatest length (64 kB, SMPP 3.4, 5.3.2.32), and
 * more than the other fields and TLVs need. SMPP has no limit of its own.
 */
export const MAX_PDU_OCTETS = 70_000

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
