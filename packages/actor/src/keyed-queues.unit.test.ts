/** The queue discipline, by example and compared with a simple model. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { KeyedQueues } from './keyed-queues.ts'

interface Item {
  readonly id: number
  readonly key: string
  readonly lane: number
  readonly route: string
}

const item = (id: number, key: string, lane = 1, route = 'r'): Item => ({ id, key, lane, route })

describe('KeyedQueues', () => {
  it('takes one item of a key at a time, in lane order', () => {
    const queues = new KeyedQueues<Item>(2)
    const [a1, a2, b1] = [item(1, 'a'), item(2, 'a'), item(3, 'b')]
    for (const each of [a1, a2, b1]) queues.push(each, false)
    assert.strictEqual(queues.take(1, 'r'), a1)
    assert.strictEqual(queues.take(1, 'r'), b1)
    assert.isNull(queues.take(1, 'r'))
    queues.remove(a1)
    assert.strictEqual(queues.take(1, 'r'), a2)
  })

  it('stops the items behind a blocked item of a lane, but not the more urgent lane', () => {
    const queues = new KeyedQueues<Item>(2)
    const [first, second, code] = [item(1, 'a'), item(2, 'a'), item(3, 'a', 0)]
    queues.push(first, true)
    queues.push(second, false)
    assert.isNull(queues.take(1, 'r'))
    queues.push(code, false)
    assert.strictEqual(queues.take(0, 'r'), code)
    queues.remove(code)
    queues.unblock(first)
    assert.strictEqual(queues.take(1, 'r'), first)
    queues.requeue(first, true)
    assert.isNull(queues.take(1, 'r'))
  })

  it('takes only items of the requested route', () => {
    const queues = new KeyedQueues<Item>(1)
    const live = item(1, 'a', 0, 'live')
    const test = item(2, 'b', 0, 'test')
    queues.push(live, false)
    queues.push(test, false)
    assert.strictEqual(queues.take(0, 'test'), test)
    assert.isNull(queues.take(0, 'test'))
    assert.strictEqual(queues.take(0, 'live'), live)
  })

  it('removes an actor with its last item', () => {
    const queues = new KeyedQueues<Item>(2)
    const items = Array.from({ length: 100 }, (_, i) => item(i, `k${i % 7}`, i % 2))
    for (const each of items) queues.push(each, i(each))
    for (const each of items) queues.remove(each)
    assert.strictEqual(queues.actors, 0)
    assert.strictEqual(queues.count(0) + queues.count(1), 0)
  })

  it('keeps order, exclusivity and progress in any sequence of operations', () => {
    const step = fc.record({
      do: fc.constantFrom('push', 'pushBlocked', 'take', 'remove', 'requeue', 'requeueBlocked', 'unblock'),
      key: fc.nat(3),
      lane: fc.nat(1),
      which: fc.nat(30),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const queues = new KeyedQueues<Item>(2)
        const present: Array<Item> = []
        const taken = new Set<Item>()
        const blocked = new Set<Item>()
        let id = 0
        for (const next of steps) {
          const some = present[next.which % Math.max(1, present.length)]
          switch (next.do) {
            case 'push':
            case 'pushBlocked': {
              const made = item(id++, `k${next.key}`, next.lane)
              present.push(made)
              if (next.do === 'pushBlocked') blocked.add(made)
              queues.push(made, next.do === 'pushBlocked')
              break
            }
            case 'take': {
              const got = queues.take(next.lane, 'r')
              const heads = present.filter(
                (each) =>
                  each.lane === next.lane &&
                  !present.some((o) => o.key === each.key && o.lane === each.lane && o.id < each.id),
              )
              const ready = heads.filter(
                (each) => !blocked.has(each) && ![...taken].some((o) => o.key === each.key),
              )
              if (got === null) assert.lengthOf(ready, 0, '`take` returns null only if no item is ready')
              else {
                assert.include(ready, got)
                taken.add(got)
              }
              break
            }
            case 'remove':
              if (some === undefined) break
              queues.remove(some)
              present.splice(present.indexOf(some), 1)
              taken.delete(some)
              blocked.delete(some)
              break
            case 'requeue':
            case 'requeueBlocked': {
              const [one] = taken
              if (one === undefined) break
              taken.delete(one)
              if (next.do === 'requeueBlocked') blocked.add(one)
              queues.requeue(one, next.do === 'requeueBlocked')
              break
            }
            case 'unblock':
              if (some === undefined) break
              blocked.delete(some)
              queues.unblock(some)
          }
          assert.strictEqual(queues.count(0) + queues.count(1), present.length)
          assert.strictEqual(queues.actors, new Set(present.map(({ key }) => key)).size)
        }
      }),
    )
  })
})

const i = (each: Item): boolean => each.id % 3 === 0
