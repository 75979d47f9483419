import { describe, expect, it } from 'vitest'
import type { Pdu } from './codec.ts'
import { concatenationOf, makeReassembly, type MessagePart } from './reassembly.ts'

const part = (sequence: number, more: Partial<MessagePart> = {}): MessagePart => ({
  to: '+79001234567',
  sender: 'HUB',
  text: `<${sequence}>`,
  operatorId: `id-${sequence}`,
  concatenation: { reference: 7, total: 3, sequence },
  ...more,
})

describe('messages of several parts', () => {
  it('are complete with the last part, in any order', () => {
    const reassembly = makeReassembly()
    expect(reassembly.add(part(3))).toBeNull()
    expect(reassembly.add(part(1))).toBeNull()
    expect(reassembly.unfinished()).toBe(1)
    expect(reassembly.add(part(2))).toEqual({
      to: '+79001234567',
      text: '<1><2><3>',
      operatorIds: ['id-1', 'id-2', 'id-3'],
    })
    expect(reassembly.unfinished()).toBe(0)
  })

  it('are separated by number, sender and reference, and a repeated part replaces the first', () => {
    const reassembly = makeReassembly()
    reassembly.add(part(1))
    reassembly.add(part(2, { to: '+79001234568' }))
    reassembly.add(part(2, { sender: 'OTHER' }))
    reassembly.add(part(2, { concatenation: { reference: 8, total: 3, sequence: 2 } }))
    reassembly.add(part(1, { operatorId: 'id-1-again' }))
    expect(reassembly.add(part(2))).toBeNull()
    expect(reassembly.add(part(3))?.operatorIds).toEqual(['id-1-again', 'id-2', 'id-3'])
    expect(reassembly.unfinished()).toBe(3)
  })

  it('are detected by headers with 8-bit and 16-bit references, and by optional parameters', () => {
    const withHeader = (...element: ReadonlyArray<number>) =>
      ({ short_message: { udh: [Buffer.from(element)], message: '' } }) as unknown as Pdu
    expect(concatenationOf(withHeader(0, 3, 9, 2, 1))).toEqual({ reference: 9, total: 2, sequence: 1 })
    expect(concatenationOf(withHeader(8, 4, 1, 2, 3, 2))).toEqual({ reference: 258, total: 3, sequence: 2 })
    const parameters = { sar_msg_ref_num: 5, sar_total_segments: 2, sar_segment_seqnum: 1 }
    expect(concatenationOf(parameters as unknown as Pdu)).toEqual({ reference: 5, total: 2, sequence: 1 })
    expect(concatenationOf(withHeader(36, 1, 1))).toBeNull()
  })
})
