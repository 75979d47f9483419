/** Timers, compared with a simple model. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { TimerHeap } from './timer-heap.ts'

describe('TimerHeap', () => {
  it('returns each timer once, in order, at the time of its last set', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('set' as const), key: fc.nat(15), at: fc.nat(100) }),
      fc.record({ do: fc.constant('clear' as const), key: fc.nat(15) }),
      fc.record({ do: fc.constant('due' as const), now: fc.nat(100) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const heap = new TimerHeap<number>()
        const model = new Map<number, number>()
        for (const next of steps) {
          if (next.do === 'set') {
            heap.set(next.key, next.at)
            model.set(next.key, next.at)
          } else if (next.do === 'clear') {
            heap.clear(next.key)
            model.delete(next.key)
          } else {
            let last = -1
            for (;;) {
              const key = heap.takeDue(next.now)
              if (key === undefined) break
              const at = model.get(key)
              assert.isDefined(at)
              assert.isAtMost(at!, next.now)
              assert.isAtLeast(at!, last)
              last = at!
              model.delete(key)
            }
            assert.isFalse([...model.values()].some((at) => at <= next.now))
          }
          assert.strictEqual(heap.size, model.size)
          assert.strictEqual(heap.next(), model.size === 0 ? null : Math.min(...model.values()))
        }
      }),
    )
  })

  it('clears a timer that is set to an infinite time', () => {
    const heap = new TimerHeap<string>()
    heap.set('a', 5)
    heap.set('a', Number.POSITIVE_INFINITY)
    assert.strictEqual(heap.size, 0)
  })
})
