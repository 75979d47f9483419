/**
 * Which server of a Redis Cluster has a key. Pure. Source: Redis cluster specification, "Key distribution model", "Hash
 * tags" and "CRC16 reference implementation".
 */

export const SLOTS = 16_384

/** CRC-16 with the polynomial 0x1021 (XMODEM). Most keys have a short tag, so a table would not pay. */
const crc16 = (bytes: Uint8Array): number => {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
    crc &= 0xffff
  }
  return crc
}

const encoder = new TextEncoder()

/** What is between the first `{` and the next `}` decides, unless it is empty. Otherwise the whole key does. */
export const slotOf = (key: string): number => {
  const start = key.indexOf('{')
  const end = start === -1 ? -1 : key.indexOf('}', start)
  return crc16(encoder.encode(end > start + 1 ? key.slice(start + 1, end) : key)) % SLOTS
}

/** The primary of a range of slots, both ends included. `host: null`: the one that was asked. */
export interface SlotRange {
  readonly first: number
  readonly last: number
  readonly host: string | null
  readonly port: number
}

/** Nodes that do not know their host name say so with these. Source: Redis, command CLUSTER SLOTS. */
const UNKNOWN_HOSTS: ReadonlySet<unknown> = new Set([null, '', '?'])

/** The answer of `CLUSTER SLOTS`. `null`: it has another form. */
export const readSlotRanges = (answer: unknown): ReadonlyArray<SlotRange> | null => {
  if (!Array.isArray(answer)) return null
  const ranges: Array<SlotRange> = []
  for (const entry of answer as ReadonlyArray<unknown>) {
    const [first, last, primary] = Array.isArray(entry) ? (entry as ReadonlyArray<unknown>) : []
    const [host, port] = Array.isArray(primary) ? (primary as ReadonlyArray<unknown>) : []
    const isRight =
      [first, last].every((slot) => Number.isInteger(slot) && Number(slot) >= 0 && Number(slot) < SLOTS) &&
      Number.isInteger(port) &&
      (typeof host === 'string' || host === null)
    if (!isRight) return null
    ranges.push({
      first: Number(first),
      last: Number(last),
      host: UNKNOWN_HOSTS.has(host) ? null : String(host),
      port: Number(port),
    })
  }
  return ranges
}
