/** Which effects an input of a shard returns. */
import { Fence } from '@hub/actor'
import type { MessageAccepted } from '@hub/domain'
import { describe, expect, it } from 'vitest'
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
    shard.effectsOf(() => shard.onFact(0, 'r', claim, new Fence(), 1))
    shard.effectsOf(() => shard.opened({ epoch: 1, now: 1, laneEnds: [0, 0], logPosition: 1 }))
    // The lane record is missing. The shard counts the message as sent, and needs its deadline.
    expect(() => shard.effectsOf(() => shard.committed([0, 0], 1, 1))).toThrow('no deadline')
    expect(shard.effectsOf(() => shard.tick(1))).toEqual([])
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
    const run = (input: () => void): void => {
      for (const effect of shard.effectsOf(input)) {
        if (effect.type === 'append') run(() => shard.onAppended(effect, log++, time.now))
        else if (effect.type === 'count') counted.push(effect.event)
        else if (effect.type === 'submit') {
          const { message, submission } = effect
          const rejected = { type: 'rejected', reason: 'operator_rejected' } as const
          run(() => shard.handovers.answered(message, rejected, submission, time.now))
        }
      }
    }
    run(() => shard.opened({ epoch: 1, now: time.now, laneEnds: [0, 0], logPosition: 0 }))
    const read = (offset: number, account: string) => {
      const accepted = {
        type: 'MessageAccepted',
        messageId: `msg_${offset}`,
        at: time.now,
        account,
        mode: 'live',
        class: 'service',
        recipient: `r${offset}`,
        expiresAt: time.now + 60_000,
        sealed: new Uint8Array(),
        republished: false,
      } as MessageAccepted
      run(() => {
        if (shard.accepts(SERVICE, offset, accepted)) {
          shard.onAccepted(SERVICE, offset, time.now, accepted, time.now)
        }
      })
    }
    const handOver = (account: string) => {
      const message = shard.handovers.take(SERVICE, 'op', account)
      if (message === null) throw new Error('no message waits')
      run(() => shard.handovers.claim(message, {} as PreparedSubmission, time.now))
    }
    for (const offset of [0, 1, 2, 3]) read(offset, 'acc_a')
    read(4, 'acc_b')
    for (const account of ['acc_b', 'acc_a', 'acc_a']) handOver(account)
    // Only the ids of the final messages are left.
    for (let position = 0; position < log; position++) shard.isOwn(position)
    time.now += 11_000
    run(() => shard.committed([0, 0], log, time.now))
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

describe('a message that cannot be handed over now', () => {
  it('holds later messages of its account to the recipient, but none of another account', () => {
    const SERVICE = 1
    const NOW = 1_000_000
    const shard = new MessageShard({
      operators: { test: 'op', live: 'op' },
      dedupes: () => false,
      onReady: () => {},
      reportDeadline: () => 0,
    })
    shard.effectsOf(() => shard.opened({ epoch: 1, now: NOW, laneEnds: [0, 0], logPosition: 0 }))
    for (const [offset, account] of ['acc_a', 'acc_a', 'acc_b'].entries()) {
      const accepted = {
        type: 'MessageAccepted',
        messageId: `msg_${offset}`,
        at: NOW,
        account,
        mode: 'live',
        class: 'service',
        recipient: 'r',
        expiresAt: NOW + 60_000,
        sealed: new Uint8Array(),
        republished: false,
      } as MessageAccepted
      shard.effectsOf(() => {
        shard.accepts(SERVICE, offset, accepted)
        shard.onAccepted(SERVICE, offset, NOW, accepted, NOW)
      })
    }
    const held = shard.handovers.take(SERVICE, 'op', 'acc_a')
    expect(held?.id).toBe('msg_0')
    // The key of its payload cannot be used now.
    shard.effectsOf(() => shard.handovers.end(held!, NOW + 5000, NOW))
    expect(shard.handovers.take(SERVICE, 'op', 'acc_a')).toBeNull()
    expect(shard.handovers.take(SERVICE, 'op', 'acc_b')?.id).toBe('msg_2')
  })
})
