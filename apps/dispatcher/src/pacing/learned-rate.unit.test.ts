/** What a dispatcher learns from the answers of an operator. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { type Answers, learn, type LearnedRate, UNLIMITED } from './learned-rate.ts'

/** Applies answers to the newest parts, each tenth of a second. */
const after = (
  state: LearnedRate,
  from: number,
  tenths: number,
  answers: (tenth: number) => Partial<Answers>,
): LearnedRate => {
  let next = state
  for (let tenth = 0; tenth < tenths; tenth++) {
    const { newThrottled = 0, passed = 0, reaction = next.reaction } = answers(tenth)
    next = learn(next, { reaction, passed, newPassed: passed, newThrottled }, from + tenth * 100)
  }
  return next
}

/** A rate of 100 parts per second that is held. */
const HELD: LearnedRate = { ...UNLIMITED, rate: 97, passing: 100, proven: 100, step: 0.03, fellAt: -60_000 }
/** The parts that pass in a tenth of a second, if the rate is used. */
const used = ({ rate }: LearnedRate) => rate! / 10

/** Pauses are computed with floating point numbers. */
const ROUNDING_MS = 0.001

describe('the learned rate', () => {
  it('begins with what the operator accepted, when it throttles first', () => {
    const before = after(UNLIMITED, 0, 5, () => ({ passed: 40 }))
    const first = learn(before, { reaction: 0, passed: 10, newPassed: 10, newThrottled: 3 }, 500)
    assert.approximately(first.rate!, 210 * 0.97, 0.01)
    assert.isAtMost(first.pausedUntil - 500, 1000)
    // Another dispatcher tells what passed before. Its throttled answer is no news.
    const other = learn(first, { reaction: 0, passed: 100, newPassed: 100, newThrottled: 9 }, 600)
    assert.approximately(other.rate!, 310 * 0.97, 0.01)
    assert.strictEqual(other.reaction, first.reaction)
  })

  it('is at least ten parts per second after a single throttled answer of an idle operator', () => {
    const first = learn(UNLIMITED, { reaction: 0, passed: 1, newPassed: 1, newThrottled: 1 }, 0)
    assert.approximately(first.rate!, 9.7, 0.01)
  })

  it('rises while it is used, and stays while it is not', () => {
    let busy = HELD
    for (let tenth = 0; tenth < 100; tenth++)
      busy = after(busy, tenth * 100, 1, () => ({ passed: used(busy) }))
    assert.isAbove(busy.rate!, 150)
    const idle = after(HELD, 0, 1000, () => ({ passed: 3 }))
    assert.strictEqual(idle.rate, HELD.rate)
    assert.strictEqual(after(HELD, 0, 1000, () => ({})).rate, HELD.rate)
  })

  it('falls by a tenth for a throttled answer while it is held, and pauses for less than a second', () => {
    const busy = after(HELD, 0, 10, () => ({ passed: 9.7 }))
    const fallen = learn(busy, { reaction: 0, passed: 5, newPassed: 5, newThrottled: 3 }, 1000)
    assert.approximately(fallen.passing, 90, 0.01)
    assert.isAtMost(fallen.pausedUntil - 1000, 1000)
    const old = learn(fallen, { reaction: 0, passed: 0, newPassed: 0, newThrottled: 50 }, 1050)
    assert.strictEqual(old.rate, fallen.rate, 'parts submitted before the fall say nothing more')
  })

  it('tolerates two throttled parts in a hundred while it is held', () => {
    const state = after(HELD, 0, 600, (tenth) => ({ passed: 9.7, newThrottled: tenth % 10 === 0 ? 1 : 0 }))
    assert.isAtLeast(state.passing, 100)
  })

  it('falls to what the operator accepts if it throttles again at once', () => {
    const busy = after(HELD, 0, 10, () => ({ passed: 9.7 }))
    let state = learn(busy, { reaction: 0, passed: 0, newPassed: 0, newThrottled: 3 }, 1000)
    state = after(state, 1300, 5, () => ({ passed: 9 }))
    state = learn(state, { reaction: state.reaction, passed: 0, newPassed: 0, newThrottled: 9 }, 2000)
    assert.approximately(state.passing, 45, 0.01)
  })

  it('tries single parts while the operator throttles everything, at most a second apart', () => {
    let state = after(HELD, 0, 10, () => ({ passed: 9.7 }))
    let now = 1000
    const pauses: Array<number> = []
    for (let tries = 0; tries < 12; tries++) {
      state = learn(state, { reaction: state.reaction, passed: 0, newPassed: 0, newThrottled: 3 }, now)
      pauses.push(state.pausedUntil - now)
      now = state.pausedUntil
    }
    assert.isAtMost(Math.max(...pauses), 1000)
    assert.approximately(state.passing, 90, 0.01, 'a closed operator says nothing on its rate')
    assert.isAbove(state.tryEveryMs, 0)
    state = learn(state, { reaction: state.reaction, passed: 1, newPassed: 1, newThrottled: 0 }, now)
    assert.strictEqual(state.tryEveryMs, 0)
  })

  it('stays above zero and finite, whatever the operator answers', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            passed: fc.nat(300),
            newThrottled: fc.oneof(fc.constant(0), fc.nat(20)),
            ms: fc.nat(3000),
          }),
          { maxLength: 200 },
        ),
        (steps) => {
          let state = UNLIMITED
          let now = 0
          for (const { ms, newThrottled, passed } of steps) {
            now += ms
            state = learn(state, { reaction: state.reaction, passed, newPassed: passed, newThrottled }, now)
            if (state.rate === null) continue
            assert.isTrue(Number.isFinite(state.rate))
            assert.isAtLeast(state.rate, 0.09)
            assert.isAtMost(state.pausedUntil - now, Math.max(1000, 1000 / state.passing) + ROUNDING_MS)
          }
        },
      ),
      // The second pause is 2,903 ms, and 1000 / state.passing is less than that by a rounding error.
      {
        examples: [
          [
            [
              { passed: 0, newThrottled: 1, ms: 0 },
              { passed: 1, newThrottled: 0, ms: 685 },
              { passed: 0, newThrottled: 1, ms: 2218 },
              { passed: 0, newThrottled: 1, ms: 0 },
            ],
          ],
        ],
      },
    )
  })
})
