import { assert, describe, it } from '@effect/vitest'
import { Fence } from './fence.ts'

describe('the fence of a log', () => {
  it('makes claims of a lower epoch void, from where it stands on', () => {
    const fence = new Fence()
    assert.isFalse(fence.isVoid(1))
    fence.observe(10, { epoch: 3, member: 'a' })
    assert.isTrue(fence.isVoid(2))
    assert.isFalse(fence.isVoid(3))
  })

  it('belongs to the first of two members with one epoch', () => {
    const fence = new Fence()
    fence.observe(10, { epoch: 3, member: 'a' })
    fence.observe(11, { epoch: 3, member: 'b' })
    assert.isTrue(fence.isHeldBy({ epoch: 3, member: 'a' }))
    assert.isFalse(fence.isHeldBy({ epoch: 3, member: 'b' }))
    fence.observe(12, { epoch: 4, member: 'b' })
    assert.isTrue(fence.isHeldBy({ epoch: 4, member: 'b' }))
  })

  it('says where a reader must begin to see what is in force at an offset', () => {
    const fence = new Fence()
    assert.isNull(fence.before(100))
    fence.observe(10, { epoch: 1, member: 'a' })
    fence.observe(20, { epoch: 2, member: 'b' })
    // Left behind by a member that had lost the shard: nothing is in force from there.
    fence.observe(25, { epoch: 1, member: 'a' })
    fence.observe(30, { epoch: 2, member: 'b' })
    assert.strictEqual(fence.before(19), 10)
    assert.strictEqual(fence.before(29), 20)
    assert.strictEqual(fence.before(30), 30)
    assert.strictEqual(fence.newest, 30)
  })
})
