import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { PinnedOffsets } from './pinned-offsets.ts'

const owners = fc.constantFrom('one', 'another', 'a third')

describe('offsets that are still needed', () => {
  it('know the lowest of a set, whatever was held and released in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(40), owners), { maxLength: 200 }), (steps) => {
        const held = new PinnedOffsets<string>()
        const model = new Map<number, Set<string>>()
        for (const [hold, offset, owner] of steps) {
          if (hold) {
            held.hold(offset, owner)
            model.set(offset, (model.get(offset) ?? new Set()).add(owner))
          } else {
            held.release(offset, owner)
            model.get(offset)?.delete(owner)
            if (model.get(offset)?.size === 0) model.delete(offset)
          }
          const sorted = [...model].sort(([a], [b]) => a - b)
          assert.strictEqual(held.lowest(), sorted[0]?.[0] ?? null)
          assert.deepStrictEqual(
            [...held.owners()],
            sorted.flatMap(([, owners]) => [...owners]),
          )
          assert.strictEqual(held.size, [...held.owners()].length)
        }
      }),
    )
  })

  it('need no owner, and are held once then', () => {
    const held = new PinnedOffsets()
    held.hold(7)
    held.hold(5)
    held.hold(5)
    assert.strictEqual(held.size, 2)
    held.release(5)
    assert.strictEqual(held.lowest(), 7)
    assert.deepStrictEqual([...held.owners()], [])
  })

  it('stay small however many have passed', () => {
    const held = new PinnedOffsets()
    for (let offset = 0; offset < 100_000; offset++) {
      held.hold(offset)
      if (offset >= 10) held.release(offset - 10)
      held.lowest()
    }
    assert.strictEqual(held.lowest(), 99_990)
    assert.strictEqual(held.size, 10)
  })
})
