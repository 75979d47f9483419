import { describe, expect, it } from 'vitest'
import { lineOf } from './event-line.ts'

const AT = '2026-11-21T09:30:00.000Z'

describe('the line of an event', () => {
  it.each([
    [
      'message.expired',
      { id: 'msg_1', status: 'expired', reason_code: 'ttl' },
      `${AT}  message.expired             msg_1  expired (ttl)`,
    ],
    [
      'message.sent',
      { id: 'msg_1', status: 'sent', reason_code: null },
      `${AT}  message.sent                msg_1  sent`,
    ],
    [
      'batch.completed',
      { id: 'bat_1', object: 'batch', counts: { total: 3, accepted: 3, rejected: 0, delivered: 2 } },
      `${AT}  batch.completed             bat_1  total 3, accepted 3, delivered 2`,
    ],
    ['account.spend_threshold', { id: 'acc_1' }, `${AT}  account.spend_threshold     acc_1`],
    ['recipient.opted_out', { recipient: 'hash', message: null }, `${AT}  recipient.opted_out`],
    ['something.new', {}, `${AT}  something.new`],
  ])('of %s contains what its object has, and never the word undefined', (type, object, line) => {
    expect(lineOf({ type, created_at: AT, data: { object } })).toBe(line)
  })
})
