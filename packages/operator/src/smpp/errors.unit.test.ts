import { Result } from 'effect'
import { describe, expect, it } from 'vitest'
import { DEFAULT_ERRORS, meaningOfState, meaningOfStatus, parseSmppErrors, statusName } from './errors.ts'

describe('the meaning of codes', () => {
  it.each([
    [0x58, 'throttled'],
    [0x14, 'throttled'],
    [0x08, 'retry'],
    [0x04, 'retry'],
    [0x64, 'retry'],
    [0x0a, 'spam_filter_sender'],
    [0x0b, 'operator_rejected'],
    [0x45, 'operator_rejected'],
    [0x0400, 'operator_rejected'],
  ])('status %i: %s', (status, meaning) => {
    expect(meaningOfStatus(DEFAULT_ERRORS, status)).toBe(meaning)
  })

  it('comes from the configuration, else from the defaults', () => {
    const read = parseSmppErrors(
      JSON.stringify({
        command_status: { '0x0400': 'retry', ESME_RSUBMITFAIL: 'spam_filter_content', 1025: 'throttled' },
        receipt_state: { viewed: 'seen', 10: 'seen', DELETED: 'expired' },
        receipt_error: { '00b1': 'recipient_blocked', '000': 'delivery_failed' },
      }),
    )
    if (Result.isFailure(read)) throw new Error('it is a mapping')
    const errors = read.success
    expect([0x400, 0x45, 0x401, 0x58].map((status) => meaningOfStatus(errors, status))).toEqual([
      'retry',
      'spam_filter_content',
      'throttled',
      'throttled',
    ])
    expect(
      ['VIEWED', '10', 'DELETED', 'DELIVRD', 'WHAT'].map((state) => meaningOfState(errors, state)),
    ).toEqual(['seen', 'seen', 'expired', 'delivered', null])
    expect(Array.from(errors.receiptError)).toEqual([
      ['B1', 'recipient_blocked'],
      ['0', 'delivery_failed'],
    ])
  })

  it.each([
    '',
    '[]',
    '{"command_status": {"0x0400": "whatever"}}',
    '{"command_status": {"ESME_NONE": "retry"}}',
    '{"command_status": {"0": "retry"}}',
    '{"command_status": {"0x100000000": "retry"}}',
    '{"receipt_error": {"1": "dlr_timeout"}}',
  ])('cannot be configured by %s', (json) => {
    expect(Result.isFailure(parseSmppErrors(json))).toBe(true)
  })

  it('has a status name if SMPP defines one', () => {
    expect([statusName(0x58), statusName(0x400)]).toEqual(['ESME_RTHROTTLED', '0x00000400'])
  })
})
