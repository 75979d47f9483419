import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodePdu, encodePdu, makeFrames, MAX_PDU_OCTETS, MAX_SEQUENCE, nextSequence } from './pdu.ts'

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
        const written = bodies.map((body) => encodePdu('submit_sm', 7, { short_message: Buffer.from(body) }))
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

  it('of the greatest length are buffered', () => {
    const frames = makeFrames()
    frames.push(lengthOf(MAX_PDU_OCTETS))
    frames.push(Buffer.alloc(MAX_PDU_OCTETS - 5))
    expect(frames.next()).toBeNull()
    frames.push(Buffer.alloc(1))
    expect(frames.next()).toHaveLength(MAX_PDU_OCTETS)
  })
})

describe('a PDU', () => {
  it('decodes to what was encoded', () => {
    const pdu = decodePdu(
      encodePdu('deliver_sm', 12, {
        source_addr: '79001234567',
        data_coding: 8,
        short_message: Buffer.from([4, 0x10]),
        receipted_message_id: 'abc',
        message_state: 2,
      }),
    )!
    expect([pdu.command, pdu.sequence, pdu.status, pdu.isResponse]).toEqual(['deliver_sm', 12, 0, false])
    expect([pdu.text('source_addr'), pdu.number('data_coding')]).toEqual(['79001234567', 8])
    expect(Array.from(pdu.octets('short_message')!)).toEqual([4, 0x10])
    expect([pdu.text('receipted_message_id'), pdu.number('message_state')]).toEqual(['abc', 2])
    expect([pdu.text('message_payload'), pdu.number('user_message_reference'), pdu.octets('x')]).toEqual([
      '',
      null,
      null,
    ])
  })

  it('of hostile octets is decoded or refused without an exception', () => {
    const commands = fc.constantFrom(
      1,
      2,
      3,
      4,
      5,
      6,
      7,
      8,
      9,
      0xb,
      0x15,
      0x21,
      0x102,
      0x103,
      0x111,
      0x112,
      99,
    )
    const answers = fc.constantFrom(0, 0x8000_0000)
    fc.assert(
      fc.property(commands, answers, fc.uint8Array({ maxLength: 300 }), (command, answer, body) => {
        const frame = Buffer.alloc(16 + body.length)
        frame.writeUInt32BE(frame.length, 0)
        frame.writeUInt32BE(command + answer, 4)
        frame.writeUInt32BE(3, 12)
        frame.set(body, 16)
        const pdu = decodePdu(frame)
        if (pdu === null) return
        expect(pdu.isResponse).toBe(answer !== 0)
        for (const field of ['short_message', 'constructor', 'toString', '__proto__']) {
          pdu.octets(field)
          expect(pdu.text(field)).toBeTypeOf('string')
        }
      }),
      { numRuns: 500 },
    )
  })

  it('with a TLV beyond its end is refused', () => {
    const whole = encodePdu('deliver_sm', 1, { message_state: 2 })
    const cut = Buffer.from(whole.subarray(0, whole.length - 1))
    cut.writeUInt32BE(cut.length)
    expect(decodePdu(cut)).toBeNull()
  })
})

describe('sequence numbers', () => {
  it('start again at 1 and skip outstanding requests', () => {
    expect(nextSequence(0, () => false)).toBe(1)
    expect(nextSequence(MAX_SEQUENCE, () => false)).toBe(1)
    expect(nextSequence(MAX_SEQUENCE - 1, (n) => n === MAX_SEQUENCE || n <= 2)).toBe(3)
  })
})
