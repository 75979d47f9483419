/** Flow control for one operator. */
import { assert, describe, it } from '@effect/vitest'
import type { SubmitOutcome } from '@hub/operator'
import { Pace } from './pace.ts'

const OTP = 0
const SERVICE = 1
const refused: SubmitOutcome = { type: 'refused', submitted: true, retryAfterMs: 60_000 }
const accepted: SubmitOutcome = { type: 'accepted', operatorIds: ['1'] }

describe('the window', () => {
  it('reserves a tenth, and at least one message, for codes', () => {
    const pace = new Pace({ dedupesByReference: true, window: 100 }, 0)
    assert.strictEqual(pace.room(SERVICE, 0, 0), 90)
    assert.strictEqual(pace.room(SERVICE, 90, 0), 0)
    assert.strictEqual(pace.room(OTP, 90, 0), 10)
    assert.strictEqual(pace.room(OTP, 100, 0), 0)
    assert.strictEqual(new Pace({ dedupesByReference: true, window: 2 }, 0).room(SERVICE, 0, 0), 1)
  })

  it('of one message has no reserve, so that a campaign can start', () => {
    assert.strictEqual(new Pace({ dedupesByReference: true, window: 1 }, 0).room(SERVICE, 0, 0), 1)
  })
})

describe('the rate', () => {
  it('counts parts, and leaves a reserve for codes', () => {
    const pace = new Pace({ dedupesByReference: true, window: 1000, maxPartsPerSecond: 50 }, 0)
    let campaign = 0
    while (pace.mayTake(SERVICE, 0)) {
      pace.took(3)
      campaign += 3
    }
    assert.strictEqual(campaign, 45)
    let codes = 0
    while (pace.mayTake(OTP, 0)) {
      pace.took(1)
      codes++
    }
    assert.strictEqual(codes, 5)
    assert.isTrue(pace.mayTake(OTP, 20))
    assert.isFalse(pace.mayTake(SERVICE, 20))
    assert.isTrue(pace.mayTake(SERVICE, 140))
  })
})

describe('refusals', () => {
  it('shrink the window down to one message per second; accepted messages restore it', () => {
    const pace = new Pace({ dedupesByReference: true, window: 64 }, 0)
    let now = 0
    let asked = 0
    for (; now < 20_000; now += 100) {
      const room = pace.room(OTP, 0, now)
      if (room === 0) continue
      asked += room
      pace.answered(
        Array.from({ length: room }, () => refused),
        now,
      )
    }
    assert.isAtMost(asked, 64 + 32 + 16 + 8 + 4 + 2 + 20)
    assert.isAtLeast(asked, 64 + 10, 'it is asked again and again')
    let rounds = 0
    for (; pace.room(OTP, 0, now) < 64; now += 1000) {
      rounds++
      pace.answered(
        Array.from({ length: pace.room(OTP, 0, now) }, () => accepted),
        now,
      )
    }
    assert.isAtMost(rounds, 7)
  })

  it('of one message among many shrink the window without a pause', () => {
    const pace = new Pace({ dedupesByReference: true, window: 50 }, 0)
    pace.answered([refused], 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 25)
  })

  it('of a part of a batch cause no pause', () => {
    const pace = new Pace({ dedupesByReference: true, window: 10 }, 0)
    pace.answered([accepted, refused], 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 6)
  })

  it('of one message for its own reasons do not shrink the window', () => {
    const pace = new Pace({ dedupesByReference: true, window: 10 }, 0)
    pace.answered([{ type: 'refused', submitted: true, retryAfterMs: 8000, affectsOnlyThis: true }], 0)
    assert.strictEqual(pace.room(OTP, 0, 0), 10)
  })
})
