import fc from 'fast-check'
import { expect, it } from 'vitest'
import { reconnectDelayMs } from './reconnect.ts'

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
