import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Deadlines } from './deadlines.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const MS = 1000

describe('Deadlines', () => {
  it('ends each wait after its own time, with one timer for all', () => {
    const ended: Array<readonly [string, number]> = []
    const begun = performance.now()
    const deadlines = new Deadlines<string>(MS, (one) => ended.push([one, performance.now() - begun]))
    deadlines.add('first')
    vi.advanceTimersByTime(300)
    deadlines.add('second')
    deadlines.add('third')
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(MS)
    expect(ended).toEqual([
      ['first', MS],
      ['second', 300 + MS],
      ['third', 300 + MS],
    ])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('forgets who is done, and serves who comes after a pause', () => {
    const ended: Array<string> = []
    const deadlines = new Deadlines<string>(MS, (one) => ended.push(one))
    const done = deadlines.add('done')
    deadlines.remove(done)
    deadlines.remove(done)
    vi.advanceTimersByTime(MS - 1)
    deadlines.add('late')
    vi.advanceTimersByTime(MS - 1)
    expect(ended).toEqual([])
    vi.advanceTimersByTime(1)
    expect(ended).toEqual(['late'])
  })

  it('keeps the others, wherever in the line one is done', () => {
    for (const gone of [0, 1, 2]) {
      const ended: Array<string> = []
      const deadlines = new Deadlines<string>(MS, (one) => ended.push(one))
      const line = ['first', 'second', 'third'].map((one) => deadlines.add(one))
      deadlines.remove(line[gone]!)
      deadlines.add('fourth')
      vi.advanceTimersByTime(MS)
      expect(ended).toEqual(['first', 'second', 'third', 'fourth'].toSpliced(gone, 1))
      for (const one of line) deadlines.remove(one)
      deadlines.add('fifth')
      vi.advanceTimersByTime(MS)
      expect(ended.at(-1)).toBe('fifth')
    }
  })

  it('takes on who comes when another has ended', () => {
    const ended: Array<string> = []
    const deadlines: Deadlines<string> = new Deadlines(MS, (one) => {
      ended.push(one)
      if (one === 'first') deadlines.add('next')
    })
    deadlines.add('first')
    vi.advanceTimersByTime(1)
    deadlines.add('second')
    vi.advanceTimersByTime(MS)
    expect(ended).toEqual(['first', 'second'])
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(MS)
    expect(ended).toEqual(['first', 'second', 'next'])
  })
})
