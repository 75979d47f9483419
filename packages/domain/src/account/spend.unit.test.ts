import { describe, expect, it } from 'vitest'
import { spendPeriodOf, spendThresholdCrossed } from './spend.ts'

const account = 'acc_06e9c2v5k4r8x1m7n3p0q2s6tw'

describe('a spend period', () => {
  // Rules: LIM-17, ACC-3
  it.each([
    ['2026-11-01T00:00:00.000Z', '2026-11-01', '2026-12-01T00:00:00.000Z'],
    ['2026-11-30T23:59:59.999Z', '2026-11-01', '2026-12-01T00:00:00.000Z'],
    ['2026-12-31T23:59:59.999Z', '2026-12-01', '2027-01-01T00:00:00.000Z'],
    ['2028-02-29T12:00:00.000Z', '2028-02-01', '2028-03-01T00:00:00.000Z'],
  ])('%s belongs to the month that begins on %s', (at, day, to) => {
    expect(spendPeriodOf(Date.parse(at))).toEqual({
      day,
      from: Date.parse(`${day}T00:00:00.000Z`),
      to: Date.parse(to),
    })
  })
})

describe('the spend threshold event', () => {
  const november = spendPeriodOf(Date.UTC(2026, 10, 21))
  const spending = {
    limit: { amount: '100.00', currency: 'RUB' },
    spent: { amount: '80.00', currency: 'RUB' },
    period: november,
    softThresholdPercent: 80,
  }

  // Rules: EVT-8
  it('contains the spend limit as the account shows it', () => {
    expect(spendThresholdCrossed(account, spending)).toMatchObject({
      type: 'account.spend_threshold',
      object: {
        object: 'spend_limit',
        limit: { amount: '100.00', currency: 'RUB' },
        spent: { amount: '80.00', currency: 'RUB' },
        period: { from: '2026-11-01T00:00:00.000Z', to: '2026-12-01T00:00:00.000Z' },
        soft_threshold_percent: 80,
      },
    })
  })

  // Rules: EVT-9
  it('has one id for each account and period', () => {
    const { id } = spendThresholdCrossed(account, spending)
    expect(spendThresholdCrossed(account, { ...spending, spent: spending.limit }).id).toBe(id)
    expect(spendThresholdCrossed(account, { ...spending, period: spendPeriodOf(november.to) }).id).not.toBe(
      id,
    )
    expect(spendThresholdCrossed('acc_other', spending).id).not.toBe(id)
  })
})
