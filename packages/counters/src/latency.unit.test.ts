import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { afterAnswer, deadlineOf, expectedOf, type Latency } from './latency.ts'

const time = fc.double({ min: 0, max: 10_000, noNaN: true })
const times = fc.array(time, { minLength: 1, maxLength: 200 })
const limits = fc
  .tuple(time, time)
  .map(([one, other]) => ({ least: Math.min(one, other), most: Math.max(one, other) }))
const UNLIMITED = { least: 0, most: Number.POSITIVE_INFINITY }

/** The estimate after these measurements; at least one. */
const measure = ([first = 0, ...others]: ReadonlyArray<number>): Latency =>
  others.reduce<Latency>(afterAnswer, afterAnswer(null, first))
const repeat = (latency: Latency, measured: number, times: number): Latency =>
  Array.from({ length: times }).reduce<Latency>((before) => afterAnswer(before, measured), latency)

describe('the latency of Redis', () => {
  it('is that of RFC 6298', () => {
    // R = 100: SRTT 100, RTTVAR 50. R' = 140: RTTVAR 3/4 × 50 + 1/4 × 40 = 47.5, SRTT 7/8 × 100 + 1/8 × 140 = 105.
    assert.deepStrictEqual(measure([100]), { smoothed: 100, variation: 50, last: 100 })
    assert.deepStrictEqual(measure([100, 140]), { smoothed: 105, variation: 47.5, last: 140 })
    assert.strictEqual(deadlineOf(measure([100, 140]), UNLIMITED), 105 + 4 * 47.5)
  })

  it('is between the shortest and the longest measurement', () => {
    fc.assert(
      fc.property(times, (measured) => {
        const { smoothed } = measure(measured)
        // Rounding errors of the sums.
        assert.isAtLeast(smoothed, Math.min(...measured) - 1e-6)
        assert.isAtMost(smoothed, Math.max(...measured) + 1e-6)
      }),
    )
  })

  it('follows a new constant latency, in both directions', () => {
    fc.assert(
      fc.property(times, time, (before, after) => {
        const { smoothed } = repeat(measure(before), after, 200)
        assert.closeTo(smoothed, after, 0.001)
        assert.closeTo(deadlineOf(repeat(measure(before), after, 200), UNLIMITED), after + 50, 0.01)
      }),
    )
  })
})

describe('the deadline of a call', () => {
  it('is within its limits', () => {
    fc.assert(
      fc.property(times, limits, (measured, { least, most }) => {
        const deadline = deadlineOf(measure(measured), { least, most })
        assert.isAtLeast(deadline, least)
        assert.isAtMost(deadline, most)
      }),
    )
  })

  it('would have been enough for the last answer, within its limits', () => {
    fc.assert(
      fc.property(times, limits, (measured, { least, most }) => {
        const last = measured.at(-1)!
        assert.isAtLeast(deadlineOf(measure(measured), { least, most }) + 1e-6, Math.min(last, most))
      }),
    )
  })

  it('is longer after a longer answer', () => {
    fc.assert(
      fc.property(times, time, time, (measured, one, other) => {
        const before = measure(measured)
        const [shorter, longer] = [Math.min(one, other), Math.max(one, other)].map((extra) =>
          deadlineOf(afterAnswer(before, before.smoothed + extra), UNLIMITED),
        )
        assert.isAtLeast(longer! + 1e-6, shorter!)
      }),
    )
  })
})

describe('the expected answer', () => {
  it('is soon after one fast answer, and late only after several slow ones', () => {
    fc.assert(
      fc.property(times, time, (before, after) => {
        const latency = measure([...before, after])
        assert.isAtMost(expectedOf(latency), after)
        assert.isAtMost(expectedOf(latency), latency.smoothed)
      }),
    )
    const fast = measure([1])
    assert.isBelow(expectedOf(afterAnswer(fast, 1000)), 250)
    assert.isAbove(expectedOf(repeat(fast, 1000, 10)), 250)
  })
  it('comes before the deadline, if that has no limit', () => {
    fc.assert(
      fc.property(times, (measured) => {
        const latency = measure(measured)
        assert.isAtMost(expectedOf(latency), deadlineOf(latency, UNLIMITED))
      }),
    )
  })
})
