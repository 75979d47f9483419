import { assert, describe, it } from '@effect/vitest'
import { GatherTime } from './gather-time.ts'

describe('the time in which the projector gathers records', () => {
  const few = (now: number) => ({ now, isPublishing: false })

  it('doubles at a steady rate, up to a limit, and is short again after a pause', () => {
    const time = new GatherTime()
    assert.strictEqual(time.next(1, few(0)), 40)
    assert.strictEqual(time.next(3, few(45)), 80)
    assert.strictEqual(time.next(6, few(130)), 160)
    assert.strictEqual(time.next(9, few(295)), 160)
    // The broker waited for a record.
    assert.strictEqual(time.next(1, few(500)), 40)
  })

  it('is short while fetches have many records', () => {
    const time = new GatherTime()
    time.next(1, few(0))
    assert.strictEqual(time.next(5, few(45)), 80)
    assert.strictEqual(time.next(200, few(130)), 40)
  })

  it('is shortest while accounts with webhooks get events', () => {
    const time = new GatherTime()
    assert.strictEqual(time.next(1, { now: 0, isPublishing: true }), 15)
    assert.strictEqual(time.next(1, { now: 18, isPublishing: true }), 15)
    assert.strictEqual(time.next(1, few(36)), 30)
  })
})
