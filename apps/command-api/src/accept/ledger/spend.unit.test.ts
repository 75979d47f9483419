import { assert, describe, it } from '@effect/vitest'
import { minorUnits, moneyOf } from '@hub/domain'
import { Schema } from 'effect'
import { type Charge, overspending, periodKey } from './spend.ts'

const rub = (amount: string) => ({ amount, currency: 'RUB' })
const charge = (messageId: string, price: string, over: Partial<Charge> = {}): Charge => ({
  messageId,
  accountUuid: 'a',
  period: '2026-11-01',
  price: rub(price),
  limit: rub('10.00'),
  ...over,
})
const refused = (charges: ReadonlyArray<Charge>, spent: Readonly<Record<string, string>> = {}) => [
  ...overspending(charges, new Map(Object.entries(spent).map(([key, amount]) => [key, rub(amount)]))),
]

describe('a charge beyond the spend limit', () => {
  // Rules: LIM-13, BAT-8
  it('is refused in the order of the charges, to the kopeck', () => {
    const charges = [charge('1', '4.00'), charge('2', '4.00'), charge('3', '2.01'), charge('4', '2.00')]
    assert.deepStrictEqual(refused(charges), ['3'])
    assert.deepStrictEqual(refused(charges, { 'a 2026-11-01': '10.00' }), ['1', '2', '3', '4'])
  })
  // Rules: LIM-17
  it('is decided per account and month', () => {
    const full = { 'a 2026-11-01': '9.00' }
    assert.deepStrictEqual(
      refused(
        [
          charge('1', '2.00'),
          charge('2', '2.00', { period: '2026-12-01' }),
          charge('3', '2.00', { accountUuid: 'b' }),
        ],
        full,
      ),
      ['1'],
    )
  })
  // Rules: LIM-17
  it('does not exist without a limit', () => {
    assert.deepStrictEqual(refused([charge('1', '999999.00', { limit: null })]), [])
  })
  // Rules: LIM-13
  it.prop(
    'is never accepted, and a charge within the limit is never refused',
    [Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 500 })))],
    ([prices]) => {
      const charges = prices.map((price, i) => charge(String(i), moneyOf(BigInt(price), 'RUB').amount))
      const out = overspending(charges, new Map())
      let sum = 0n
      for (const one of charges) {
        const after = sum + minorUnits(one.price)
        assert.strictEqual(out.has(one.messageId), after > 1000n, periodKey(one))
        if (!out.has(one.messageId)) sum = after
      }
      assert.isTrue(sum <= 1000n)
    },
  )
})
