import { assert, describe, it } from '@effect/vitest'
import { encodeId } from '@hub/domain'
import { account, idOf, T } from '../testing/model.ts'
import {
  batchCompletedEntry,
  closingCandidates,
  chargedPeriods,
  spendThresholdEntry,
} from './aggregate-events.ts'

const batch = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba71')

describe('aggregate events', () => {
  const seal = {
    type: 'BatchSealed',
    batch,
    account,
    mode: 'live',
    total: 1,
    accepted: 0,
    duplicate: 0,
    rejected: 1,
    createdAt: T,
    at: T,
  } as const

  it('consider each batch once that is sealed, or has more final messages or fewer members', () => {
    const other = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba72')
    const change = {
      account,
      mode: 'live',
      members: 1,
      delivered: 1,
      undelivered: 0,
      rejected: 0,
      expired: 0,
    } as const
    const owner = { account, mode: 'live' } as const
    assert.deepStrictEqual(closingCandidates([], [seal, seal]), [{ ...owner, batch }])
    assert.deepStrictEqual(closingCandidates([{ ...change, batch, final: 1 }], [seal]), [{ ...owner, batch }])
    assert.deepStrictEqual(closingCandidates([{ ...change, batch: other, final: 0 }], []), [])
    // The message for which the batch waited belongs to another batch.
    assert.deepStrictEqual(closingCandidates([{ ...change, batch: other, members: -1, final: 0 }], []), [
      { ...owner, batch: other },
    ])
  })

  it('consider the charged periods of accounts, and no reversals', () => {
    const amount = { amount: '4.00', currency: 'RUB' }
    const charge = {
      messageId: idOf(1),
      kind: 'charge',
      account,
      period: '2026-11-01',
      amount,
      at: T,
    } as const
    assert.deepStrictEqual(chargedPeriods([charge, charge, { ...charge, period: '2026-12-01' }]), [
      { account, period: '2026-11-01', currency: 'RUB' },
      { account, period: '2026-12-01', currency: 'RUB' },
    ])
    assert.deepStrictEqual(chargedPeriods([{ ...charge, kind: 'reversal' }]), [])
  })

  it('belong to the journal of the account and mode', () => {
    const counts = { total: 1, accepted: 1, duplicate: 0, delivered: 1, undelivered: 0, expired: 0 }
    assert.deepInclude(
      batchCompletedEntry({
        batch,
        account,
        mode: 'test',
        createdAt: T,
        closed: true,
        ...counts,
        rejectedAtAcceptance: 0,
        rejectedByOperator: 0,
      }),
      { account, mode: 'test' },
    )
    const money = (amount: string) => ({ amount, currency: 'RUB' })
    const { event, mode } = spendThresholdEntry({
      account,
      period: '2026-11-01',
      limit: money('10.00'),
      spent: money('8.00'),
      softThresholdPercent: 80,
    })
    assert.strictEqual(mode, 'live')
    assert.deepInclude(event.object, {
      period: { from: '2026-11-01T00:00:00.000Z', to: '2026-12-01T00:00:00.000Z' },
    })
  })
})
