/** Which effects an input of a shard returns. */
import { Fence } from '@hub/actor'

import { messageAccepted } from '@hub/domain/testing'
import { describe, expect, it } from 'vitest'
import type { ShardInput } from './inputs.ts'
import type { PreparedSubmission } from './message.ts'
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
    shard.handle({ type: 'fact', offset: 0, recipient: 'r', fact: claim, fence: new Fence() }, 1)
    shard.handle({ type: 'opened', epoch: 1, laneEnds: [0, 0], logPosition: 1 }, 1)
    // The lane record is missing. The shard counts the message as sent, and needs its deadline.
    const committed = { type: 'committed', lanes: [0, 0], logPosition: 1 } as const
    expect(() => shard.handle(committed, 1)).toThrow('no deadline')
    expect(shard.handle({ type: 'tick' }, 1)).toEqual([])
  })
})

describe('a lane record that is read again', () => {
  it('for another account, is no duplicate of a message that is final', () => {
    const SERVICE = 1
    const shard = new MessageShard({
      operators: { test: 'op', live: 'op' },
      dedupes: () => false,
      onReady: () => {},
      reportDeadline: () => 0,
      limits: { buffer: 3, open: 100, finished: 100 },
    })
    const time = { now: 1_000_000 }
    const counted: Array<string> = []
    let log = 0
    const run = (input: ShardInput): void => {
      for (const effect of shard.handle(input, time.now)) {
        if (effect.type === 'append') run({ type: 'appended', effect, offset: log++ })
        else if (effect.type === 'count') counted.push(effect.what)
        else if (effect.type === 'submit') {
          const { message, submission } = effect
          const rejected = { type: 'rejected', reason: 'operator_rejected' } as const
          run({ type: 'answered', message, outcome: rejected, submission })
        }
      }
    }
    run({ type: 'opened', epoch: 1, laneEnds: [0, 0], logPosition: 0 })
    const read = (offset: number, account: string) => {
      const accepted = messageAccepted({
        messageId: `msg_${offset}`,
        at: time.now,
        account,
        recipient: `r${offset}`,
        expiresAt: time.now + 60_000,
      })
      const verdict = shard.judge(SERVICE, offset, accepted)
      if (verdict === 'keep') run({ type: 'accepted', lane: SERVICE, offset, appendedAt: time.now, accepted })
      else if (verdict === 'duplicate') counted.push('duplicate_dropped')
    }
    const submit = (account: string) => {
      const message = shard.take(SERVICE, 'op', account)
      if (message === null) throw new Error('no message waits')
      const submission = {} as PreparedSubmission
      run({ type: 'prepared', message, preparation: { type: 'prepared', submission } })
    }
    for (const offset of [0, 1, 2, 3]) read(offset, 'acc_a')
    read(4, 'acc_b')
    for (const account of ['acc_b', 'acc_a', 'acc_a']) submit(account)
    // Only the ids of the final messages are left.
    for (let position = 0; position < log; position++) shard.isOwn(position)
    time.now += 11_000
    run({ type: 'committed', lanes: [0, 0], logPosition: log })
    const cursor = shard.queues.cursor(SERVICE)
    expect(cursor.seekTarget(5, time.now)).toBe(2)
    for (const [offset, account] of [
      [2, 'acc_a'],
      [3, 'acc_a'],
      [4, 'acc_b'],
    ] as const) {
      read(offset, account)
    }
    expect(shard.queues.count(SERVICE)).toBe(2)
    expect(counted).toEqual([])
  })
})

describe('a message that cannot be submitted now', () => {
  it('holds later messages of its account to the recipient, but none of another account', () => {
    const SERVICE = 1
    const NOW = 1_000_000
    const shard = new MessageShard({
      operators: { test: 'op', live: 'op' },
      dedupes: () => false,
      onReady: () => {},
      reportDeadline: () => 0,
    })
    shard.handle({ type: 'opened', epoch: 1, laneEnds: [0, 0], logPosition: 0 }, NOW)
    for (const [offset, account] of ['acc_a', 'acc_a', 'acc_b'].entries()) {
      const accepted = messageAccepted({
        messageId: `msg_${offset}`,
        at: NOW,
        account,
        recipient: 'r',
        expiresAt: NOW + 60_000,
      })
      expect(shard.judge(SERVICE, offset, accepted)).toBe('keep')
      shard.handle({ type: 'accepted', lane: SERVICE, offset, appendedAt: NOW, accepted }, NOW)
    }
    const held = shard.take(SERVICE, 'op', 'acc_a')
    expect(held?.id).toBe('msg_0')
    // The key of its payload cannot be used now.
    const preparation = { type: 'retryLater', afterMs: 5000 } as const
    shard.handle({ type: 'prepared', message: held!, preparation }, NOW)
    expect(shard.take(SERVICE, 'op', 'acc_a')).toBeNull()
    expect(shard.take(SERVICE, 'op', 'acc_b')?.id).toBe('msg_2')
  })
})
