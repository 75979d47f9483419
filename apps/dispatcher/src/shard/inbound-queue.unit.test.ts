import type { InboundMessageReceived, IncomingRecord } from '@hub/kafka'
import { describe, expect, it } from 'vitest'
import { InboundQueue } from './inbound-queue.ts'

const waiting = (offset: number) => ({
  record: { offset } as IncomingRecord,
  message: {} as InboundMessageReceived,
})
const offsets = (queue: InboundQueue, count: number) => queue.first(count).map(({ record }) => record.offset)

describe('InboundQueue', () => {
  it('keeps the order, and returns the offset of the oldest message', () => {
    const queue = new InboundQueue()
    expect(queue.lowest).toBeNull()
    for (const offset of [3, 5, 9]) queue.add(waiting(offset))
    expect(offsets(queue, 2)).toEqual([3, 5])
    queue.done(5)
    expect(queue.lowest).toBe(3)
    queue.done(3)
    expect(queue.lowest).toBe(9)
    queue.done(9)
    queue.done(9)
    expect(queue.lowest).toBeNull()
  })

  it('is full at its limit, and has room below half of it', () => {
    const queue = new InboundQueue(4)
    for (const offset of [0, 1, 2]) queue.add(waiting(offset))
    expect([queue.isFull, queue.hasRoom]).toEqual([false, false])
    queue.add(waiting(3))
    expect([queue.isFull, queue.hasRoom]).toEqual([true, false])
    queue.done(0)
    expect(queue.hasRoom).toBe(false)
    queue.done(1)
    expect([queue.isFull, queue.hasRoom]).toEqual([false, true])
  })
})
