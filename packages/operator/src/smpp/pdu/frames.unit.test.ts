import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodePdu } from './encode.ts'
import { makeFrames, MAX_PDU_OCTETS } from './frames.ts'

const lengthOf = (length: number) => {
  const octets = Buffer.alloc(4)
  octets.writeUInt32BE(length)
  return octets
}

describe('frames', () => {
  it('are complete for any chunks of the stream', () => {
    const pdus = fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 20 })
    fc.assert(
      fc.property(pdus, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (bodies, cuts) => {
        const written = bodies.map((body) => encodePdu('submit_sm', 7, { short_message: body }))
        const stream = Buffer.concat(written)
        const frames = makeFrames()
        const read: Array<Buffer> = []
        for (let at = 0, i = 0; at < stream.length; i++) {
          const next = at + cuts[i % cuts.length]!
          frames.push(stream.subarray(at, next))
          at = next
          for (let frame = frames.next(); frame !== null; frame = frames.next()) read.push(frame as Buffer)
        }
        expect(read).toEqual(written)
        expect(frames.buffered()).toBe(0)
      }),
    )
  })

  it.each([0, 15, MAX_PDU_OCTETS + 1, 0xffff_ffff])(
    'of length %i are refused before they are buffered',
    (length) => {
      const frames = makeFrames()
      frames.push(lengthOf(length))
      expect(frames.next()).toBe('malformed')
      frames.push(Buffer.alloc(100_000))
      expect(frames.next()).toBe('malformed')
      expect(frames.buffered()).toBe(0)
    },
  )

  it('with a message_payload of 65,535 octets are complete', () => {
    // SMPP 3.4, 5.3.2.32: "up to a maximum of 64 kB". The length of a TLV has 16 bits.
    const frames = makeFrames()
    const longest = encodePdu('deliver_sm', 1, { message_payload: new Uint8Array(0xffff) })
    frames.push(longest.subarray(0, 40_000))
    expect(frames.next()).toBeNull()
    frames.push(longest.subarray(40_000))
    expect(frames.next()).toEqual(longest)
  })
})
