/** Flow control for one operator. */
import { assert, describe, it } from '@effect/vitest'
import type { Capabilities, SubmitOutcome } from '@hub/operator'
import { grantOf } from '../testing/grant.ts'
import { type Answer, Pace } from './pace.ts'

const OTP = 0
const SERVICE = 1
const refused: SubmitOutcome = { type: 'refused', submitted: true, retryAfterMs: 60_000 }
const throttled: SubmitOutcome = { ...refused, throttledParts: 1 }
const accepted: SubmitOutcome = { type: 'accepted', operatorIds: ['1'] }

const paceOf = (more: Partial<Capabilities> = {}) =>
  new Pace({ dedupesByReference: true, window: 100, ...more })

const answers = (...outcomes: ReadonlyArray<SubmitOutcome>): ReadonlyArray<Answer> =>
  outcomes.map((outcome) => ({ outcome, parts: 1, attempts: 1, reaction: 0 }))

describe('the window', () => {
  it('reserves a tenth, and at least one message, for codes', () => {
    const pace = paceOf()
    assert.strictEqual(pace.room(SERVICE, 0, 0), 90)
    assert.strictEqual(pace.room(SERVICE, 90, 0), 0)
    assert.strictEqual(pace.room(OTP, 90, 0), 10)
    assert.strictEqual(pace.room(OTP, 100, 0), 0)
    assert.strictEqual(paceOf({ window: 2 }).room(SERVICE, 0, 0), 1)
  })

  it('of one message has no reserve, so that a campaign can start', () => {
    assert.strictEqual(paceOf({ window: 1 }).room(SERVICE, 0, 0), 1)
  })

  it('begins small for an operator that may throttle, and grows with each accepted message', () => {
    const pace = paceOf({ isPaced: true })
    assert.strictEqual(pace.room(OTP, 0, 0), 4)
    pace.answered(answers(accepted, accepted, accepted, accepted), 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 8)
  })
})

describe('refusals', () => {
  it('shrink the window down to one message per second; accepted messages restore it', () => {
    const pace = paceOf({ window: 64 })
    let now = 0
    let asked = 0
    for (; now < 20_000; now += 100) {
      const room = pace.room(OTP, 0, now)
      if (room === 0) continue
      asked += room
      pace.answered(answers(...Array.from({ length: room }, () => refused)), now)
    }
    assert.isAtMost(asked, 64 + 32 + 16 + 8 + 4 + 2 + 20)
    assert.isAtLeast(asked, 64 + 10, 'it is asked again and again')
    let rounds = 0
    for (; pace.room(OTP, 0, now) < 64; now += 1000) {
      rounds++
      pace.answered(answers(...Array.from({ length: pace.room(OTP, 0, now) }, () => accepted)), now)
    }
    assert.isAtMost(rounds, 7)
  })

  it('of one message among many shrink the window without a pause', () => {
    const pace = paceOf({ window: 50 })
    pace.answered(answers(refused), 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 25)
  })

  it('of a part of a batch cause no pause', () => {
    const pace = paceOf({ window: 10 })
    pace.answered(answers(accepted, refused), 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 6)
  })

  it('of one message for its own reasons do not shrink the window', () => {
    const pace = paceOf({ window: 10 })
    pace.answered(answers({ ...refused, affectsOnlyThis: true }), 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 10)
  })

  it('because of the rate change the rate, and not the window', () => {
    const pace = paceOf({ isPaced: true, window: 4 })
    pace.answered(answers(throttled, accepted), 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 4)
    assert.isTrue(pace.isHeld(0))
    const request = pace.granted?.request({ otp: 0, service: 0 }, 0)
    assert.deepInclude(request, { reaction: 0, passed: 1, newPassed: 1, newThrottled: 1 })
  })

  it('of a message that was throttled twice before do not change the rate either', () => {
    const pace = paceOf({ isPaced: true })
    pace.answered([{ outcome: throttled, parts: 1, attempts: 3, reaction: 0 }], 0)
    assert.isFalse(pace.isHeld(0))
    assert.strictEqual(pace.granted?.request({ otp: 0, service: 0 }, 0).newThrottled, 0)
  })
})

it('spreads the parts of a message over a second at most', () => {
  const pace = paceOf({ isPaced: true })
  pace.granted?.accept(grantOf({ rate: 20 }), 0)
  assert.strictEqual(pace.partGapMs(1), 0)
  assert.strictEqual(pace.partGapMs(3), 50)
  pace.granted?.accept(grantOf({ rate: 1 }), 0)
  assert.strictEqual(pace.partGapMs(4), 250)
  pace.granted?.accept(grantOf({ rate: null }), 0)
  assert.strictEqual(pace.partGapMs(4), 100, 'as the slow start begins')
})
