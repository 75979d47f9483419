/** Which effects an input of a shard returns. */
import { Fence } from '@hub/actor'
import { describe, expect, it } from 'vitest'
import { MessageShard } from './shard.ts'

describe('the effects of an input', () => {
  it('contain none of an earlier input that threw', () => {
    const shard = new MessageShard({
      operators: { test: 'op', live: 'op' },
      dedupes: () => false,
      onReady: () => {},
      reportDeadline: () => {
        throw new Error('no deadline')
      },
    })
    const claim = {
      type: 'HandoverStarted',
      messageId: 'msg_a',
      at: 1,
      attempt: 1,
      epoch: 0,
      operator: 'op',
    } as const
    shard.effectsOf(() => shard.onFact(0, 'r', claim, new Fence(), 1))
    shard.effectsOf(() => shard.opened({ epoch: 1, now: 1, laneEnds: [0, 0], logPosition: 1 }))
    // The lane record is missing. The shard counts the message as sent, and needs its deadline.
    expect(() => shard.effectsOf(() => shard.committed([0, 0], 1, 1))).toThrow('no deadline')
    expect(shard.effectsOf(() => shard.tick(1))).toEqual([])
  })
})
