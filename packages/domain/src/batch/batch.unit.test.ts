import { describe, expect, it } from 'vitest'
import { encodeId } from '../id/id.ts'
import { batchCompleted, batchObject } from './batch.ts'

const batch = encodeId('bat', '0193a1b2-0000-7000-8000-000000000001')
const progress = {
  batch,
  createdAt: Date.UTC(2026, 10, 21),
  closed: true,
  total: 10,
  accepted: 7,
  duplicate: 1,
  rejectedAtAcceptance: 2,
  delivered: 4,
  undelivered: 1,
  rejectedByOperator: 1,
  expired: 1,
}

describe('a batch', () => {
  // Rules: BAT-11
  it('counts refusals at acceptance and rejections by the operator together', () => {
    expect(batchObject(progress)).toEqual({
      id: batch,
      object: 'batch',
      created_at: '2026-11-21T00:00:00.000Z',
      closed: true,
      counts: { total: 10, accepted: 7, duplicate: 1, rejected: 3, delivered: 4, undelivered: 1, expired: 1 },
    })
  })

  // Rules: BAT-13, GEN-3
  it('has a completion event whose id does not depend on its counts', () => {
    const completed = batchCompleted(progress)
    expect(completed).toMatchObject({ type: 'batch.completed', object: batchObject(progress) })
    expect(batchCompleted({ ...progress, delivered: 5, expired: 0 }).id).toBe(completed.id)
    expect(
      batchCompleted({ ...progress, batch: encodeId('bat', '0193a1b2-0000-7000-8000-000000000002') }).id,
    ).not.toBe(completed.id)
  })
})
