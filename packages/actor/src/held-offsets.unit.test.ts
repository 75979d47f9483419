import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { HeldOffsets } from './held-offsets.ts'

describe('offsets that are still needed', () => {
  it('know the lowest of a set, whatever was held and released in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(40)), { maxLength: 200 }), (steps) => {
        const held = new HeldOffsets<string>()
        const model = new Set<number>()
        for (const [hold, offset] of steps) {
          if (hold) {
            held.hold(offset, `owner ${offset}`)
            model.add(offset)
          } else {
            held.release(offset)
            model.delete(offset)
          }
          const sorted = [...model].sort((a, b) => a - b)
          assert.strictEqual(held.lowest(), sorted[0] ?? null)
          assert.deepStrictEqual(
            [...held.owners()],
            sorted.map((offset) => `owner ${offset}`),
          )
          assert.strictEqual(held.size, model.size)
        }
      }),
    )
  })

  it('stay small however many have passed', () => {
    const held = new HeldOffsets()
    for (let offset = 0; offset < 100_000; offset++) {
      held.hold(offset)
      if (offset >= 10) held.release(offset - 10)
      held.lowest()
    }
    assert.strictEqual(held.lowest(), 99_990)
    assert.strictEqual(held.size, 10)
  })
})
