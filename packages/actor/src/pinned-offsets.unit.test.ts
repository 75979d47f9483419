/** Pinned offsets, compared with a simple model. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { PinnedOffsets } from './pinned-offsets.ts'

const owners = fc.constantFrom('one', 'another', 'a third')

describe('PinnedOffsets', () => {
  it('knows the lowest offset and all owners after any sequence of pins and unpins', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(40), owners), { maxLength: 200 }), (steps) => {
        const pinned = new PinnedOffsets<string>()
        const model = new Map<number, Set<string>>()
        for (const [pin, offset, owner] of steps) {
          if (pin) {
            pinned.pin(offset, owner)
            model.set(offset, (model.get(offset) ?? new Set()).add(owner))
          } else {
            pinned.unpin(offset, owner)
            model.get(offset)?.delete(owner)
            if (model.get(offset)?.size === 0) model.delete(offset)
          }
          const sorted = [...model].sort(([a], [b]) => a - b)
          assert.strictEqual(pinned.lowest(), sorted[0]?.[0] ?? null)
          assert.deepStrictEqual(
            [...pinned.owners()],
            sorted.flatMap(([, owners]) => [...owners]),
          )
          assert.strictEqual(pinned.size, [...pinned.owners()].length)
        }
      }),
    )
  })

  it('pins an offset without an owner once', () => {
    const pinned = new PinnedOffsets()
    pinned.pin(7)
    pinned.pin(5)
    pinned.pin(5)
    assert.strictEqual(pinned.size, 2)
    pinned.unpin(5)
    assert.strictEqual(pinned.lowest(), 7)
    assert.deepStrictEqual([...pinned.owners()], [])
  })

  it('keeps only the pinned offsets of a long sequence', () => {
    const pinned = new PinnedOffsets()
    for (let offset = 0; offset < 100_000; offset++) {
      pinned.pin(offset)
      if (offset >= 10) pinned.unpin(offset - 10)
      pinned.lowest()
    }
    assert.strictEqual(pinned.lowest(), 99_990)
    assert.strictEqual(pinned.size, 10)
  })
})
