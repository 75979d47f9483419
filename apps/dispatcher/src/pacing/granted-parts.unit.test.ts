/** How a process uses its grants. */
import { assert, describe, it } from '@effect/vitest'
import { grantOf } from '../testing/grant.ts'
import { GrantedParts } from './granted-parts.ts'
import type { Grant } from './hub-rate.ts'

const service = (messages: number) => ({ otp: 0, service: messages })

const granted = (over: Partial<Grant> = {}) => {
  const parts = new GrantedParts()
  parts.accept(grantOf(over), 0)
  return parts
}

/** Takes all messages of one part that may be taken at these times, and returns how many. */
const takeAt = (parts: GrantedParts, ...times: ReadonlyArray<number>) =>
  times.map((now) => {
    let count = 0
    for (; count < 100 && parts.mayTake(now); count++) parts.took(1)
    return count
  })

describe('granted parts', () => {
  it('may be used at their times', () => {
    const parts = granted({ parts: 4, startsInMs: 50 })
    assert.deepStrictEqual(takeAt(parts, 0, 49, 50, 149, 150, 1000), [0, 0, 1, 0, 1, 0])
    assert.isFalse(new GrantedParts().mayTake(0), 'there was no grant yet')
  })

  it('are not needed while no limit is known, but the process starts slowly', () => {
    const parts = granted({ rate: null })
    assert.deepStrictEqual(takeAt(parts, 0), [1])
    assert.strictEqual(parts.nextAt(0), 100)
    parts.request(service(10), 0)
    assert.strictEqual(parts.requestAt(service(10)), 100, 'the times of what passes matter')
    for (let now = 100; now < 1800; now += 100) {
      for (let taken = 0; taken < 600 && parts.mayTake(now); taken++) parts.took(1)
    }
    parts.request(service(10), 2000)
    assert.deepStrictEqual(takeAt(parts, 2000, 2001), [100, 100])
    assert.strictEqual(parts.requestAt(service(10)), 3000)
  })

  it('are lost if they are not used within a short time, so that a stopped process starts slowly', () => {
    const parts = granted({ rate: 1000, everyMs: 1, parts: 1000 })
    assert.deepStrictEqual(takeAt(parts, 100), [100], 'no more than its time')
    assert.isAtMost(takeAt(parts, 900)[0]!, 151)
    assert.deepStrictEqual(takeAt(parts, 5000), [0])
    assert.deepStrictEqual(takeAt(granted({ rate: 0.5, everyMs: 2000, parts: 1 }), 2500), [1])
  })

  it('of a long message are taken together, and paid for later', () => {
    const parts = granted({ parts: 2 })
    assert.isTrue(parts.mayTake(0))
    parts.took(4)
    parts.accept(grantOf({ parts: 5, startsInMs: 200 }), 0)
    assert.deepStrictEqual(takeAt(parts, 200, 300, 400, 500), [0, 0, 1, 1])
  })

  it('wait while the operator must not be asked, and become void', () => {
    const parts = granted({ parts: 5 })
    parts.answered(0, 3, 1)
    assert.isTrue(parts.isHeld(0), 'until the others know')
    assert.strictEqual(parts.requestAt(service(100)), Number.NEGATIVE_INFINITY, 'it requests a grant at once')
    assert.deepInclude(parts.request(service(0), 1), {
      reaction: 0,
      passed: 3,
      newPassed: 3,
      newThrottled: 1,
    })
    parts.accept(grantOf({ reaction: 1, pausedMs: 200 }), 10)
    assert.isTrue(parts.isHeld(209))
    assert.isFalse(parts.isHeld(210))
    assert.strictEqual(parts.nextAt(10), 210)
    assert.deepStrictEqual(takeAt(parts, 300), [0], 'the others have used the time')
  })

  it('ignore throttled answers to parts that were submitted before the reaction', () => {
    const parts = granted({ reaction: 4, parts: 5 })
    parts.answered(3, 2, 9)
    assert.isFalse(parts.isHeld(0))
    assert.deepInclude(parts.request(service(0), 0), {
      reaction: 4,
      passed: 2,
      newPassed: 0,
      newThrottled: 0,
    })
  })

  it('are told again if the request did not arrive', () => {
    const parts = granted()
    parts.answered(0, 2, 0)
    parts.requestLost(parts.request(service(0), 0))
    parts.answered(0, 1, 0)
    assert.strictEqual(parts.request(service(0), 0).passed, 3)
    assert.strictEqual(parts.request(service(0), 0).passed, 0)
  })

  it('are asked for before they are used up, for the messages without one', () => {
    const parts = granted({ parts: 3 })
    const wantedFor = (otp: number, service: number) => {
      const { otp: wantedOtp, service: wantedService } = parts.request({ otp, service }, 0)
      return [wantedOtp, wantedService]
    }
    assert.deepStrictEqual(wantedFor(0, 10), [0, 7])
    assert.deepStrictEqual(wantedFor(5, 10), [2, 10])
    assert.deepStrictEqual(wantedFor(2, 10), [0, 9])
    assert.deepStrictEqual(wantedFor(1, 1), [0, 0])
    assert.isAtMost(parts.requestAt(service(10)), 100)
    assert.strictEqual(parts.requestAt(service(0)), 1000, 'nothing waits')
  })

  it('are asked for at once when a code comes, although the last request said to wait', () => {
    const parts = granted({ retryInMs: 80 })
    parts.request(service(10), 0)
    assert.strictEqual(parts.requestAt(service(10)), 80)
    assert.strictEqual(parts.requestAt({ otp: 1, service: 10 }), 5)
    parts.request({ otp: 1, service: 10 }, 5)
    assert.strictEqual(parts.requestAt({ otp: 1, service: 10 }), 85)
  })
})
