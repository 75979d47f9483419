/**
 * The references of concatenated messages. A phone puts parts together that have the same sender,
 * reference and number of parts. A reference of 8 bits is a small number, so two messages must not get
 * the same one while the phone may still wait for parts of the first.
 */
import { randomFillSync } from 'node:crypto'

/** 64 kB. The first four digits of a recipient hash select the slot. */
const SLOTS = 0x1_0000

/**
 * Returns the next reference, 0 to 255, for a recipient hash. Each recipient has its own counter, shared
 * with the few recipients of the same slot. So a reference returns after 255 other long messages to
 * these recipients. One counter for all recipients would be through in a fraction of a second. The
 * counters begin at random, because another process may have sent to the recipient before.
 */
export const makeReferences = (): ((recipient: string) => number) => {
  const last = randomFillSync(new Uint8Array(SLOTS))
  return (recipient) => {
    const slot = Number.parseInt(recipient.slice(0, 4), 16)
    last[slot]!++
    return last[slot]!
  }
}
