/** The queue discipline, by example and compared with a simple model. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { KeyedQueues } from './keyed-queues.ts'

interface Item {
  readonly id: number
  readonly key: string
  readonly lane: number
  readonly route: string
  readonly account: string
}

const A = 'acc_a'
const B = 'acc_b'
const item = (id: number, key: string, { account = A, lane = 1, route = 'r' } = {}): Item => ({
  id,
  key,
  lane,
  route,
  account,
})

const queuesOf = (onReady: (lane: number, route: string, account: string) => void = () => {}) =>
  new KeyedQueues<Item>(2, onReady)

describe('KeyedQueues', () => {
  it('takes one item of a key at a time, in lane order', () => {
    const queues = queuesOf()
    const [a1, a2, b1] = [item(1, 'a'), item(2, 'a'), item(3, 'b')]
    for (const each of [a1, a2, b1]) queues.push(each, false)
    assert.strictEqual(queues.take(1, 'r', A), a1)
    assert.strictEqual(queues.take(1, 'r', A), b1)
    assert.isNull(queues.take(1, 'r', A))
    queues.remove(a1)
    assert.strictEqual(queues.take(1, 'r', A), a2)
  })

  it('stops the items behind a blocked item of a lane, but not the more urgent lane', () => {
    const queues = queuesOf()
    const [first, second, code] = [item(1, 'a'), item(2, 'a'), item(3, 'a', { lane: 0 })]
    queues.push(first, true)
    queues.push(second, false)
    assert.isNull(queues.take(1, 'r', A))
    queues.push(code, false)
    assert.strictEqual(queues.take(0, 'r', A), code)
    queues.remove(code)
    queues.unblock(first)
    assert.strictEqual(queues.take(1, 'r', A), first)
    queues.requeue(first, true)
    assert.isNull(queues.take(1, 'r', A))
  })

  it('takes only items of the requested route', () => {
    const queues = queuesOf()
    const live = item(1, 'a', { lane: 0, route: 'live' })
    const test = item(2, 'b', { lane: 0, route: 'test' })
    queues.push(live, false)
    queues.push(test, false)
    assert.strictEqual(queues.take(0, 'test', A), test)
    assert.isNull(queues.take(0, 'test', A))
    assert.strictEqual(queues.take(0, 'live', A), live)
  })

  it('does not let an account stop the items of another one for the same key', () => {
    const queues = queuesOf()
    const [a1, a2] = [item(1, 'x'), item(2, 'x')]
    const [b1, b2] = [item(3, 'x', { account: B }), item(4, 'x', { account: B })]
    queues.push(a1, true)
    queues.push(b1, false)
    queues.push(a2, false)
    queues.push(b2, false)
    assert.isNull(queues.take(1, 'r', A), 'a2 is behind a1')
    assert.strictEqual(queues.take(1, 'r', B), b1)
    queues.requeue(b1, true)
    queues.unblock(a1)
    assert.isNull(queues.take(1, 'r', B), 'b2 is behind b1')
    assert.strictEqual(queues.take(1, 'r', A), a1)
    queues.remove(a1)
    assert.strictEqual(queues.take(1, 'r', A), a2)
  })

  it('takes the items of the account only, and one item of a key at a time', () => {
    const queues = queuesOf()
    const [a1, a2] = [item(1, 'x'), item(2, 'y')]
    const [b1, b2] = [item(3, 'x', { account: B }), item(4, 'z', { account: B })]
    for (const each of [a1, a2, b1, b2]) queues.push(each, false)
    assert.strictEqual(queues.take(1, 'r', B), b1)
    assert.strictEqual(queues.take(1, 'r', B), b2)
    assert.isNull(queues.take(1, 'r', B))
    assert.strictEqual(queues.take(1, 'r', A), a2, 'an item of x is taken')
    assert.isNull(queues.take(1, 'r', A))
    queues.remove(b1)
    assert.strictEqual(queues.take(1, 'r', A), a1)
  })

  it('tells when an account may have an item again', () => {
    const told: Array<string> = []
    const queues = queuesOf((lane, route, account) => told.push(`${lane} ${route} ${account}`))
    const [a1, a2, b1] = [item(1, 'x'), item(2, 'x'), item(3, 'x', { account: B, lane: 0 })]
    queues.push(a1, true)
    assert.isEmpty(told)
    queues.unblock(a1)
    queues.push(a2, false)
    queues.push(b1, false)
    assert.deepStrictEqual(told.splice(0), [`1 r ${A}`, `0 r ${B}`])
    assert.strictEqual(queues.take(1, 'r', A), a1)
    assert.isNull(queues.take(1, 'r', A))
    queues.remove(a1)
    assert.deepStrictEqual(told, [`1 r ${A}`])
  })

  it('removes an actor with its last item', () => {
    const queues = queuesOf()
    const items = Array.from({ length: 100 }, (_, i) => item(i, `k${i % 7}`, { lane: i % 2 }))
    for (const each of items) queues.push(each, i(each))
    for (const each of items) queues.remove(each)
    assert.strictEqual(queues.actors, 0)
    assert.strictEqual(queues.count(0) + queues.count(1), 0)
  })

  it('keeps order, exclusivity and progress in any sequence of operations', () => {
    const step = fc.record({
      do: fc.constantFrom('push', 'pushBlocked', 'take', 'remove', 'requeue', 'requeueBlocked', 'unblock'),
      key: fc.nat(3),
      account: fc.constantFrom(A, B),
      lane: fc.nat(1),
      which: fc.nat(30),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        /** The lanes and accounts that the queues told of and that were not found empty since. */
        const told = new Set<string>()
        const queues = queuesOf((lane, _route, account) => told.add(`${lane} ${account}`))
        const present: Array<Item> = []
        const taken = new Set<Item>()
        const blocked = new Set<Item>()
        let id = 0
        for (const next of steps) {
          const some = present[next.which % Math.max(1, present.length)]
          switch (next.do) {
            case 'push':
            case 'pushBlocked': {
              const made = item(id++, `k${next.key}`, { account: next.account, lane: next.lane })
              present.push(made)
              if (next.do === 'pushBlocked') blocked.add(made)
              queues.push(made, next.do === 'pushBlocked')
              break
            }
            case 'take': {
              const peeked = queues.peek(next.lane, 'r', next.account)
              const got = queues.take(next.lane, 'r', next.account)
              assert.strictEqual(peeked, got)
              if (got === null) told.delete(`${next.lane} ${next.account}`)
              const heads = present.filter(
                (each) =>
                  each.lane === next.lane &&
                  each.account === next.account &&
                  !present.some((o) => isSameQueue(o, each) && o.id < each.id),
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
          for (const each of present) {
            const first = present.find((o) => isSameQueue(o, each))!
            if (blocked.has(first) || [...taken].some((o) => o.key === each.key)) continue
            assert.isTrue(told.has(`${each.lane} ${each.account}`), 'nobody would ask for this item')
          }
          assert.strictEqual(queues.count(0) + queues.count(1), present.length)
          assert.strictEqual(queues.actors, new Set(present.map(({ key }) => key)).size)
        }
      }),
    )
  })
})

const isSameQueue = (one: Item, other: Item): boolean =>
  one.key === other.key && one.lane === other.lane && one.account === other.account

const i = (each: Item): boolean => each.id % 3 === 0
