import { STATS_CSV_EXAMPLE, STATS_EXAMPLE } from '@hub/contract'
import { describe, expect, it } from 'vitest'
import { prefersCsv, statsCsv } from './stats.ts'

const counts = {
  accepted: 3,
  sent: 3,
  delivered: 2,
  undelivered: 1,
  rejected: 0,
  expired: 0,
  parts: 4,
  price: { amount: '8.00', currency: 'RUB' },
}
const stats = { object: 'stats', from: '2026-11-01', to: '2026-11-21', totals: counts } as const

describe('statsCsv', () => {
  // Rules: STAT-7
  it('has a header line and a line for each row of data', () => {
    const data = [{ day: '2026-11-01', template: 'order_ready', ...counts }]
    expect(statsCsv({ ...stats, data }, 'day,template')).toBe(
      'day,template,accepted,sent,delivered,undelivered,rejected,expired,parts,price,currency\r\n' +
        '2026-11-01,order_ready,3,3,2,1,0,0,4,8.00,RUB\r\n',
    )
  })

  it('is the example of the API description', () => {
    expect(statsCsv(STATS_EXAMPLE, 'class')).toBe(STATS_CSV_EXAMPLE)
  })

  // Rules: STAT-7
  it('has the totals without groups, and an empty field for messages without a reason code', () => {
    expect(statsCsv({ ...stats, data: [] }, null).split('\r\n')[1]).toBe('3,3,2,1,0,0,4,8.00,RUB')
    const data = [{ reason_code: null, ...counts }]
    expect(statsCsv({ ...stats, data }, 'reason_code').split('\r\n')[1]).toBe(',3,3,2,1,0,0,4,8.00,RUB')
  })
})

describe('prefersCsv', () => {
  // Rules: STAT-7
  it.each<[string | undefined, boolean]>([
    [undefined, false],
    ['*/*', false],
    ['application/json', false],
    ['text/csv', true],
    ['Text/CSV; charset=utf-8', true],
    ['text/csv, application/json;q=0.5', true],
    ['application/json, text/csv;q=0.5', false],
    // Generated clients name all media types of the answer, and read it as JSON.
    ['application/json, text/csv', false],
    ['text/csv;q=0', false],
    ['text/*', false],
  ])('of %j is %j', (accept, wanted) => {
    expect(prefersCsv(accept)).toBe(wanted)
  })
})
