/** Which claims a fence makes void, and where a reader must start. */
import { assert, describe, it } from '@effect/vitest'
import { Fence } from './fence.ts'

describe('Fence', () => {
  it('makes claims of a lower epoch void from its offset on', () => {
    const fence = new Fence()
    assert.isFalse(fence.isVoid(1))
    fence.observe(10, { epoch: 3, member: 'a' })
    assert.isTrue(fence.isVoid(2))
    assert.isFalse(fence.isVoid(3))
  })

  it('belongs to the first of two members with the same epoch', () => {
    const fence = new Fence()
    fence.observe(10, { epoch: 3, member: 'a' })
    fence.observe(11, { epoch: 3, member: 'b' })
    assert.isTrue(fence.isOwnedBy({ epoch: 3, member: 'a' }))
    assert.isFalse(fence.isOwnedBy({ epoch: 3, member: 'b' }))
    fence.observe(12, { epoch: 4, member: 'b' })
    assert.isTrue(fence.isOwnedBy({ epoch: 4, member: 'b' }))
  })

  it('finds the offset where a reader must start to know the epoch at an offset', () => {
    const fence = new Fence()
    assert.isNull(fence.lastAtOrBefore(100))
    fence.observe(10, { epoch: 1, member: 'a' })
    fence.observe(20, { epoch: 2, member: 'b' })
    // A late fence of a former owner: its epoch is not current.
    fence.observe(25, { epoch: 1, member: 'a' })
    fence.observe(30, { epoch: 2, member: 'b' })
    assert.strictEqual(fence.lastAtOrBefore(19), 10)
    assert.strictEqual(fence.lastAtOrBefore(29), 20)
    assert.strictEqual(fence.lastAtOrBefore(30), 30)
    assert.strictEqual(fence.newestOffset, 30)
  })
})
