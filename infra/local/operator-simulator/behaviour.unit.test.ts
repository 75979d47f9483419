import { describe, expect, it } from 'vitest'
import { SIMULATOR_SMPP_ERRORS } from '../src/apps.ts'
import {
  changeBehaviour,
  DEFAULT_BEHAVIOUR,
  ERROR_CODES,
  isAlwaysThrottled,
  isRejected,
  plannedReports,
  share,
} from './behaviour.ts'

const of = (reference: string, to = '+79001234567') => ({ reference, to })

describe('behaviour', () => {
  it('changes the named settings and keeps the others', () => {
    const changed = changeBehaviour(DEFAULT_BEHAVIOUR, { silent_percent: 50, throttle_per_second: 10 })
    expect(changed).toEqual({ ...DEFAULT_BEHAVIOUR, silent_percent: 50, throttle_per_second: 10 })
    expect(changeBehaviour(DEFAULT_BEHAVIOUR, { throttle_per_second: null })).toEqual(DEFAULT_BEHAVIOUR)
  })

  const refused: ReadonlyArray<{ readonly change: unknown }> = [
    { change: null },
    { change: [] },
    { change: 'fast' },
    { change: { speed: 1 } },
    { change: { toString: 1 } },
    { change: { silent_percent: 101 } },
    { change: { report_delay_ms: '1' } },
    { change: { report_delay_ms: -1 } },
    { change: { report_delay_ms: null } },
    { change: { id_form: 'octal' } },
    { change: { receipt_form: null } },
    { change: { receipt_text: null } },
    { change: { receipt_error: 'x'.repeat(61) } },
    { change: { receipts_before_answer: 1 } },
    { change: { silent_percent: 60, undelivered_percent: 60 } },
  ]
  it.each(refused)('refuses $change', ({ change }) => {
    expect(changeBehaviour(DEFAULT_BEHAVIOUR, change)).toHaveProperty('error')
  })

  it('applies a percentage to that share of references, always to the same ones', () => {
    const references = Array.from({ length: 2000 }, (_, index) => `msg_${index}`)
    const silent = { ...DEFAULT_BEHAVIOUR, silent_percent: 25 }
    const hit = references.filter((reference) => plannedReports(silent, of(reference)).length === 0)
    expect(hit.length).toBeGreaterThan(400)
    expect(hit.length).toBeLessThan(600)
    expect(references.filter((reference) => plannedReports(silent, of(reference)).length === 0)).toEqual(hit)
  })

  it('gives independent shares for different questions', () => {
    expect(share('msg_1', 'report')).not.toBe(share('msg_1', 'answer'))
  })

  it('reports a seen message twice, first as delivered', () => {
    const reports = plannedReports({ ...DEFAULT_BEHAVIOUR, seen_percent: 100 }, of('msg_1'))
    expect(reports.map(({ status }) => status)).toEqual(['delivered', 'seen'])
  })

  it.each([
    ['+79000000002', ['undelivered']],
    ['+79000000006', ['rejected']],
    ['+79000000007', ['expired']],
    ['+79000000008', []],
    ['+79000000010', ['delivered', 'seen']],
  ])('treats %s as the sandbox does, with any settings', (to, statuses) => {
    const silent = { ...DEFAULT_BEHAVIOUR, silent_percent: 100 }
    expect(plannedReports(silent, of('msg_1', to)).map(({ status }) => status)).toEqual(statuses)
    expect(isRejected(silent, of('msg_1', to))).toBe(false)
  })

  it('rejects and throttles numbers as the sandbox does', () => {
    expect(isRejected(DEFAULT_BEHAVIOUR, of('msg_1', '+79000000005'))).toBe(true)
    expect(isAlwaysThrottled('+79000000011')).toBe(true)
    expect(isAlwaysThrottled('+79000000001')).toBe(false)
  })

  // Receipts contain the code with three digits. The local hub reads it with these settings.
  it('has an error code for each reason, which the settings of the local hub read back', () => {
    expect(
      Object.entries(SIMULATOR_SMPP_ERRORS.receipt_error).map(([code, reason]) => [reason, Number(code)]),
    ).toEqual(Object.entries(ERROR_CODES))
    expect(Object.keys(SIMULATOR_SMPP_ERRORS.receipt_error)).toEqual(['001', '002', '003', '011'])
  })
})
