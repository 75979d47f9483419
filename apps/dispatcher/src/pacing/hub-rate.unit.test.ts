/** How the dispatchers divide a rate. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { mostWithin } from '../testing/virtual-hub.ts'
import { type Grant, grant, type HubRate, newHubRate, type GrantRequest } from './hub-rate.ts'
import { type LearnedRate, UNLIMITED } from './learned-rate.ts'

const request = (over: Partial<GrantRequest> = {}): GrantRequest => ({
  member: 'a',
  otp: 0,
  service: 100,
  nextParts: 1,
  shards: 1,
  reaction: 0,
  passed: 0,
  newPassed: 0,
  newThrottled: 0,
  ...over,
})

/** The times of the parts of a grant that was given at `now`. */
const timesOf = ({ everyMs, parts, startsInMs }: Grant, now: number): ReadonlyArray<number> =>
  Array.from({ length: parts }, (_, i) => now + startsInMs + i * everyMs)

const finite = (min: number, max: number) => fc.double({ min, max, noNaN: true })

const learnedRate: fc.Arbitrary<LearnedRate> = fc.record({
  rate: fc.option(finite(0.1, 2000)),
  passing: finite(0.1, 2000),
  proven: finite(0.1, 2000),
  isRising: fc.boolean(),
  step: finite(0, 1),
  usedSeconds: finite(0, 1e6),
  excess: finite(0, 1e6),
  reaction: fc.nat(),
  fellAt: finite(-1e7, 1e7),
  passedSinceFall: finite(0, 1e6),
  pausedUntil: finite(-1e7, 1e7),
  tryEveryMs: finite(0, 10_000),
  isFirst: fc.boolean(),
  passed: fc.array(finite(0, 1e4), { maxLength: 20 }),
  tenthAt: finite(-1e7, 1e7),
})

const member = fc.record({
  otp: fc.nat(5000),
  service: fc.nat(5000),
  shards: finite(0, 1),
  served: finite(0, 1e9),
  expectedBy: finite(-1e7, 1e7),
})

const anyState: fc.Arbitrary<HubRate> = fc.record({
  learned: learnedRate,
  grantedTo: finite(-1e7, 1e7),
  tryAt: finite(-1e7, 1e7),
  completeAt: finite(-1e7, 1e7),
  members: fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), member),
})

describe('the division of the rate', () => {
  it('grants each piece of the timetable once: no second has more parts than the rate', () => {
    const step = fc.record({
      member: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      afterMs: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 20_000 })),
      otp: fc.oneof(fc.constant(0), fc.nat(20)),
      service: fc.oneof(fc.constant(0), fc.nat(5000)),
      nextParts: fc.integer({ min: 1, max: 10 }),
    })
    fc.assert(
      fc.property(
        fc.constantFrom(0.5, 3, 10, 100, 1000),
        fc.integer({ min: 1, max: 6 }),
        fc.array(step, { maxLength: 300 }),
        (configured, owned, steps) => {
          let state = newHubRate(0)
          let now = 0
          const times: Array<number> = []
          for (const { afterMs, ...more } of steps) {
            now += afterMs
            const next = grant(state, request({ ...more, shards: owned / 6 }), configured, now)
            state = next.state
            times.push(...timesOf(next.grant, now))
          }
          const ascending = times.toSorted((a, b) => a - b)
          assert.deepStrictEqual(times, ascending, 'grants do not overlap')
          // Sums of times are inexact.
          const second = Math.max(1000, 1000 / configured) - 0.001
          assert.isAtMost(mostWithin(ascending, second), Math.max(1, configured))
        },
      ),
    )
  })

  it('recovers from every state, and from a clock that was set back', () => {
    fc.assert(
      fc.property(anyState, fc.integer({ min: 1, max: 5000 }), (before, waiting) => {
        let state = before
        let reaction = 0
        let late = 0
        let rate: number | null = null
        for (let now = 0; now < 330_000; now += 100) {
          // Everything that was granted passes.
          const answers = { passed: late, newPassed: late, reaction }
          const next = grant(state, request({ service: waiting, ...answers }), null, now)
          state = next.state
          ;({ rate, reaction } = next.grant)
          late = next.grant.parts
          if (rate === null) return
          assert.isTrue(Number.isFinite(rate) && rate > 0, `the rate is ${rate}`)
          if (now > 310_000 && late > 0) return
        }
        assert.fail(`nothing was granted at ${rate} parts per second`)
      }),
      { numRuns: 50 },
    )
  })

  it('lets nobody starve, and gives shares in proportion to what waits', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(5, 10, 100, 1000),
        fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 2, maxLength: 6 }),
        (configured, weights) => {
          let state = newHubRate(0)
          const had = weights.map(() => 0)
          const next = weights.map((_, i) => i)
          const until = 60_000
          for (let now = 0; now < until; now++) {
            for (const [i, weight] of weights.entries()) {
              if (next[i]! > now) continue
              const own = { member: String(i), service: weight * 1000, shards: 1 / weights.length }
              const result = grant(state, request(own), configured, now)
              state = result.state
              had[i]! += result.grant.parts
              const { everyMs, parts, retryInMs, startsInMs } = result.grant
              // It asks again before its grant ends, as `GrantedParts` does.
              next[i] =
                now + Math.max(5, Math.min(100, Math.max(retryInMs, startsInMs + parts * everyMs - 60)))
            }
          }
          const all = had.reduce((sum, parts) => sum + parts, 0)
          assert.isAtLeast(all, configured * 60 * 0.95)
          const weight = weights.reduce((sum, one) => sum + one, 0)
          for (const [i, one] of weights.entries()) {
            // Each asks in its turn, so a small share is rounded up to a part in each round.
            assert.isAtLeast(had[i]!, (all * one) / weight / 4, `member ${i} of ${weights.join(', ')}`)
          }
        },
      ),
      { numRuns: 40 },
    )
  })

  it('gives the next part to the dispatcher with codes', () => {
    let state = newHubRate(0)
    const ask = (over: Partial<GrantRequest>, now: number) => {
      const next = grant(state, request(over), 10, now)
      state = next.state
      return next.grant.parts
    }
    assert.strictEqual(ask({ member: 'a' }, 0), 1)
    assert.strictEqual(ask({ member: 'b', otp: 1, service: 0 }, 0), 0, 'the next part is not near enough')
    assert.strictEqual(ask({ member: 'a' }, 80), 0, 'the other has codes')
    assert.strictEqual(ask({ member: 'b', otp: 1, service: 0 }, 85), 1)
    assert.strictEqual(ask({ member: 'a' }, 190), 1)
  })

  it('goes on without a dispatcher that does not come', () => {
    let state = newHubRate(0)
    const ask = (member: string, now: number) => {
      const next = grant(state, request({ member }), 10, now)
      state = next.state
      return next.grant.parts
    }
    assert.strictEqual(ask('a', 0), 1)
    ask('b', 0)
    assert.strictEqual(ask('a', 80), 1)
    assert.strictEqual(ask('a', 180), 0, 'it is the turn of b')
    assert.strictEqual(ask('a', 300), 1, 'b has not come')
    let parts = 0
    for (let now = 600; now < 3600; now += 20) parts += ask('a', now)
    assert.isAtLeast(parts, 29, 'b counts as gone')
  })

  it('leaves the part of unknown members to them for three seconds', () => {
    let state = newHubRate(0)
    const granted = (shards: number, from: number, to: number) => {
      let parts = 0
      for (let now = from; now < to; now += 20) {
        const next = grant(state, request({ shards }), 100, now)
        state = next.state
        parts += next.grant.parts
      }
      return parts
    }
    // Redis is new: the owner of the other three quarters of the shards may submit without it.
    assert.approximately(granted(0.25, 0, 3000), 75, 3)
    assert.approximately(granted(0.25, 3000, 6000), 300, 15)
    granted(1, 6000, 6100)
    assert.approximately(granted(0.25, 6100, 9000), 73, 4)
  })

  it('has no limit until the operator throttles', () => {
    const first = grant(newHubRate(0), request({ passed: 500 }), null, 0)
    assert.isNull(first.grant.rate)
    const second = grant(first.state, request({ passed: 100, newPassed: 100, newThrottled: 1 }), null, 100)
    assert.isNotNull(second.grant.rate)
    assert.strictEqual(second.grant.reaction, UNLIMITED.reaction + 1)
    assert.isAbove(second.grant.pausedMs, 0)
    assert.strictEqual(second.grant.parts, 0)
  })
})
