import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DeadlineQueue } from './deadline-queue.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const MS = 1000

describe('a deadline queue', () => {
  it('ends each wait at its own deadline, with one timer for all', () => {
    const ended: Array<readonly [string, number]> = []
    const begun = performance.now()
    const queue = new DeadlineQueue<string>(MS, (value) => ended.push([value, performance.now() - begun]))
    queue.add('first')
    vi.advanceTimersByTime(300)
    queue.add('second')
    queue.add('third')
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(MS)
    expect(ended).toEqual([
      ['first', MS],
      ['second', 300 + MS],
      ['third', 300 + MS],
    ])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('ignores removed waits, and accepts new ones after a pause', () => {
    const ended: Array<string> = []
    const queue = new DeadlineQueue<string>(MS, (value) => ended.push(value))
    const done = queue.add('done')
    queue.remove(done)
    queue.remove(done)
    vi.advanceTimersByTime(MS - 1)
    queue.add('late')
    vi.advanceTimersByTime(MS - 1)
    expect(ended).toEqual([])
    vi.advanceTimersByTime(1)
    expect(ended).toEqual(['late'])
  })

  it('keeps the other waits when the first, a middle or the last one is removed', () => {
    for (const removed of [0, 1, 2]) {
      const ended: Array<string> = []
      const queue = new DeadlineQueue<string>(MS, (value) => ended.push(value))
      const entries = ['first', 'second', 'third'].map((name) => queue.add(name))
      queue.remove(entries[removed]!)
      queue.add('fourth')
      vi.advanceTimersByTime(MS)
      expect(ended).toEqual(['first', 'second', 'third', 'fourth'].toSpliced(removed, 1))
      for (const entry of entries) queue.remove(entry)
      queue.add('fifth')
      vi.advanceTimersByTime(MS)
      expect(ended.at(-1)).toBe('fifth')
    }
  })

  it('accepts a new wait from the callback of another', () => {
    const ended: Array<string> = []
    const queue: DeadlineQueue<string> = new DeadlineQueue(MS, (value) => {
      ended.push(value)
      if (value === 'first') queue.add('next')
    })
    queue.add('first')
    vi.advanceTimersByTime(1)
    queue.add('second')
    vi.advanceTimersByTime(MS)
    expect(ended).toEqual(['first', 'second'])
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(MS)
    expect(ended).toEqual(['first', 'second', 'next'])
  })
})
