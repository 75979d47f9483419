import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  afterAccepted,
  afterRefused,
  firstPace,
  FIRST_LONG_SERIES,
  LONGEST_SERIES,
  type Pace,
  SERIES,
} from './pace.ts'

const accept = (pace: Pace, times: number): Pace => {
  let next = pace
  for (let time = 0; time < times; time++) next = afterAccepted(next)
  return next
}
const refuse = (pace: Pace): Pace => afterRefused(pace, pace.reductions)

describe('the pace of batches', () => {
  it('begins with two, and has one more after a long series', () => {
    expect(firstPace(4).limit).toBe(2)
    expect(accept(firstPace(4), FIRST_LONG_SERIES - 1).limit).toBe(2)
    expect(accept(firstPace(4), FIRST_LONG_SERIES).limit).toBe(3)
    expect(accept(firstPace(4), 2 * FIRST_LONG_SERIES).limit).toBe(4)
    expect(firstPace(1).limit).toBe(1)
  })

  it('has one fewer after a refusal, and two again after a short series', () => {
    const pace = refuse(accept(firstPace(4), SERIES))
    expect(pace.limit).toBe(1)
    expect(refuse(pace).limit).toBe(1)
    expect(accept(pace, SERIES - 1).limit).toBe(1)
    expect(accept(pace, SERIES).limit).toBe(2)
  })

  it('asks less often for a third one each time that the hub refuses it', () => {
    let pace = firstPace(4)
    for (let series = FIRST_LONG_SERIES; series <= LONGEST_SERIES; series *= 2) {
      expect(accept(pace, series - 1).limit).toBe(2)
      pace = refuse(accept(pace, series))
      expect(pace.limit).toBe(2)
    }
    expect(accept(pace, LONGEST_SERIES).limit).toBe(3)
  })

  it('has one fewer once for batches that were sent together', () => {
    const pace = accept(firstPace(4), 2 * FIRST_LONG_SERIES)
    const once = refuse(pace)
    expect(afterRefused(once, pace.reductions).limit).toBe(3)
  })

  it('is from one to the most, and changes by one, whatever the hub answers', () => {
    const answers = fc.array(fc.oneof({ weight: 20, arbitrary: fc.constant('accepted') }, fc.nat(3)), {
      maxLength: 300,
    })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), answers, (most, given) => {
        let pace = firstPace(most)
        for (const answer of given) {
          // A number: how many reductions ago the refused batch was sent.
          const next =
            typeof answer === 'string'
              ? afterAccepted(pace)
              : afterRefused(pace, Math.max(0, pace.reductions - answer))
          expect(next.limit).toBeGreaterThanOrEqual(1)
          expect(next.limit).toBeLessThanOrEqual(most)
          expect(Math.abs(next.limit - pace.limit)).toBeLessThanOrEqual(1)
          if (typeof answer === 'string') expect(next.limit).toBeGreaterThanOrEqual(pace.limit)
          else expect(next.limit).toBeLessThanOrEqual(pace.limit)
          pace = next
        }
        // Without refusals, it always comes back to the most.
        expect(accept(pace, LONGEST_SERIES * most).limit).toBe(most)
      }),
    )
  })
})
