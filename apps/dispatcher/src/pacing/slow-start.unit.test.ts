/** What a process submits before it knows the limit of an operator. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { SlowStart } from './slow-start.ts'

/** Takes all messages that may be taken at each time, at most this many, and returns how many. */
const takeAt = (start: SlowStart, times: ReadonlyArray<number>, most = 10_000, parts = 1) =>
  times.map((now) => {
    let messages = 0
    for (; messages < most && start.mayTake(now); messages++) start.took(parts)
    return messages
  })

const tenths = (count: number) => Array.from({ length: count }, (_, i) => i * 100)

describe('the slow start', () => {
  it('rises by half with each tenth of a second that is used up', () => {
    assert.deepStrictEqual(takeAt(new SlowStart(), tenths(8)), [1, 1, 2, 3, 5, 7, 11, 17])
  })

  it('rises with the time, although the process comes late', () => {
    assert.deepStrictEqual(takeAt(new SlowStart(), [0, 200, 500, 10_000]), [1, 2, 7, 38])
  })

  it('ends after less than two seconds of full use', () => {
    const start = new SlowStart()
    takeAt(start, tenths(17))
    assert.isTrue(start.mayTake(1700))
    assert.isTrue(start.isDone)
    assert.deepStrictEqual(takeAt(start, [1700, 1701]), [10_000, 10_000])
  })

  it('does not rise while less is used', () => {
    const start = new SlowStart()
    takeAt(start, tenths(6))
    takeAt(start, tenths(600).slice(6), 2)
    assert.deepStrictEqual(takeAt(start, [60_000]), [11])
  })

  it('lets parts of a long message wait for the next tenths of a second', () => {
    const start = new SlowStart()
    assert.deepStrictEqual(takeAt(start, tenths(5), 10_000, 4), [1, 0, 0, 1, 1])
  })

  it('counts the parts of a long message against all intervals that pass', () => {
    const start = new SlowStart()
    assert.isTrue(start.mayTake(0))
    start.took(255)
    assert.isFalse(start.mayTake(500))
    assert.isTrue(start.mayTake(60_000))
  })

  it('rises by a few steps at most while nothing is submitted', () => {
    const start = new SlowStart()
    takeAt(start, tenths(4))
    assert.deepStrictEqual(takeAt(start, [60_000, 60_050, 60_100]), [17, 0, 25])
  })

  it('never stops for longer than a tenth of a second for single parts', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(500), fc.nat(50)), { maxLength: 300 }), (steps) => {
        const start = new SlowStart()
        let now = 0
        for (const [ms, messages] of steps) {
          now += ms
          takeAt(start, [now], messages)
          if (start.mayTake(now)) continue
          assert.isAtMost(start.nextAt - now, 100)
          assert.isTrue(start.mayTake(start.nextAt))
          now = start.nextAt
        }
      }),
    )
  })
})
