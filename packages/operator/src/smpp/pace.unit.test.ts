import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { backoff, taken, throttled, UNTHROTTLED, waitOf } from './pace.ts'

const OPTIONS = { pauseMs: 100, maxPauseMs: 1000, recoverMs: 5000 }

describe('the pace', () => {
  it('doubles its pause with each throttled answer to something written after the last one, up to a bound', () => {
    let pace = UNTHROTTLED
    const pauses: Array<number> = []
    let now = 0
    for (let i = 0; i < 6; i++) {
      pace = throttled(pace, now, now, OPTIONS)
      pauses.push(waitOf(pace, now))
      now = pace.until
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1000, 1000])
  })

  it('hears one throttled answer in a hundred that were written before the pause', () => {
    let pace = throttled(UNTHROTTLED, 1000, 990, OPTIONS)
    for (let i = 0; i < 100; i++) pace = throttled(pace, 1001 + i, 995, OPTIONS)
    expect([pace.pause, pace.until]).toEqual([100, 1100])
  })

  it('halves the next pause for each while without a throttled answer', () => {
    const slow = { pause: 800, until: 0, throttledAt: 0, allowance: 1 }
    expect(throttled(slow, 4999, 4999, OPTIONS).pause).toBe(1000)
    expect(throttled(slow, 5000, 5000, OPTIONS).pause).toBe(800)
    expect(throttled(slow, 10_000, 10_000, OPTIONS).pause).toBe(400)
    expect(throttled(slow, 1e9, 1e9, OPTIONS).pause).toBe(100)
  })

  it('opens one part at a time after a pause, and takes answers from before it for nothing', () => {
    let pace = throttled(UNTHROTTLED, 0, 0, OPTIONS)
    expect(pace.allowance).toBe(1)
    pace = taken(pace, 50, 4)
    expect(pace.allowance).toBe(1)
    pace = taken(taken(pace, 100, 4), 101, 4)
    expect(pace.allowance).toBe(3)
    expect(taken(pace, 102, 4).allowance).toBe(Number.POSITIVE_INFINITY)
    expect(taken(UNTHROTTLED, 0, 4)).toBe(UNTHROTTLED)
  })
})

it('waits before a reconnect for anything up to a bound that doubles', () => {
  const options = { baseMs: 250, maxMs: 30_000 }
  expect([0, 1, 2, 6, 7, 1000].map((attempt) => backoff(attempt, 0.5, options))).toEqual([
    125, 250, 500, 8000, 15_000, 15_000,
  ])
  fc.assert(
    fc.property(
      fc.nat(),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempt, random) => {
        const wait = backoff(attempt, random, options)
        expect(wait).toBeGreaterThanOrEqual(0)
        expect(wait).toBeLessThan(30_000)
      },
    ),
  )
})
