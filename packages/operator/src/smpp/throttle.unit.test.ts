import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { afterAccepted, afterThrottled, reconnectDelayMs, remainingPauseMs, UNTHROTTLED } from './throttle.ts'

const OPTIONS = { pauseMs: 100, maxPauseMs: 1000, recoverMs: 5000 }

describe('throttling', () => {
  it('doubles the pause with each throttled answer to a part written after the last pause, up to a limit', () => {
    let state = UNTHROTTLED
    const pauses: Array<number> = []
    let now = 0
    for (let i = 0; i < 6; i++) {
      state = afterThrottled(state, now, now, OPTIONS)
      pauses.push(remainingPauseMs(state, now))
      now = state.pausedUntil
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1000, 1000])
  })

  it('ignores further throttled answers to parts written before the pause', () => {
    let state = afterThrottled(UNTHROTTLED, 1000, 990, OPTIONS)
    for (let i = 0; i < 100; i++) state = afterThrottled(state, 1001 + i, 995, OPTIONS)
    expect([state.pauseMs, state.pausedUntil]).toEqual([100, 1100])
  })

  it('halves the next pause for each recovery period without a throttled answer', () => {
    const slow = { pauseMs: 800, pausedUntil: 0, throttledAt: 0, maxInFlight: 1 }
    expect(afterThrottled(slow, 4999, 4999, OPTIONS).pauseMs).toBe(1000)
    expect(afterThrottled(slow, 5000, 5000, OPTIONS).pauseMs).toBe(800)
    expect(afterThrottled(slow, 10_000, 10_000, OPTIONS).pauseMs).toBe(400)
    expect(afterThrottled(slow, 1e9, 1e9, OPTIONS).pauseMs).toBe(100)
  })

  it('raises the limit by one for each accepted part after a pause, and ignores parts written before it', () => {
    let state = afterThrottled(UNTHROTTLED, 0, 0, OPTIONS)
    expect(state.maxInFlight).toBe(1)
    state = afterAccepted(state, 50, 4)
    expect(state.maxInFlight).toBe(1)
    state = afterAccepted(afterAccepted(state, 100, 4), 101, 4)
    expect(state.maxInFlight).toBe(3)
    expect(afterAccepted(state, 102, 4).maxInFlight).toBe(Number.POSITIVE_INFINITY)
    expect(afterAccepted(UNTHROTTLED, 0, 4)).toBe(UNTHROTTLED)
  })
})

it('waits a random time up to a doubling limit before a reconnect', () => {
  const options = { baseMs: 250, maxMs: 30_000 }
  expect([0, 1, 2, 6, 7, 1000].map((attempt) => reconnectDelayMs(attempt, 0.5, options))).toEqual([
    125, 250, 500, 8000, 15_000, 15_000,
  ])
  fc.assert(
    fc.property(
      fc.nat(),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempt, random) => {
        const delay = reconnectDelayMs(attempt, random, options)
        expect(delay).toBeGreaterThanOrEqual(0)
        expect(delay).toBeLessThan(30_000)
      },
    ),
  )
})
