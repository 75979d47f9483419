import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addMoney, minorUnits, moneyOf, multiplyMoney, zeroMoney } from './money.ts'

describe('money', () => {
  const units = fc.bigInt({ min: -(10n ** 14n), max: 10n ** 14n })

  // Rules: GEN-6
  it('is a decimal with two fraction digits', () => {
    expect(moneyOf(1250n, 'RUB')).toEqual({ amount: '12.50', currency: 'RUB' })
    expect(moneyOf(5n, 'RUB').amount).toBe('0.05')
    expect(moneyOf(-5n, 'RUB').amount).toBe('-0.05')
    expect(zeroMoney('RUB')).toEqual(moneyOf(0n, 'RUB'))
  })

  // Rules: GEN-6
  it('is exact for any amount', () => {
    fc.assert(
      fc.property(units, units, fc.nat({ max: 1000 }), (a, b, times) => {
        expect(minorUnits(moneyOf(a, 'RUB'))).toBe(a)
        expect(minorUnits(addMoney(moneyOf(a, 'RUB'), moneyOf(b, 'RUB')))).toBe(a + b)
        expect(minorUnits(multiplyMoney(moneyOf(a, 'RUB'), times))).toBe(a * BigInt(times))
      }),
    )
    expect(multiplyMoney({ amount: '2.10', currency: 'RUB' }, 3).amount).toBe('6.30')
  })

  it('rejects sums of two currencies and malformed amounts', () => {
    expect(() => addMoney(zeroMoney('RUB'), zeroMoney('EUR'))).toThrow(RangeError)
    for (const amount of ['', '1', '1.5', '1.505', '1,50', ' 1.50', '1e2', '.50', '1.50\n']) {
      expect(() => minorUnits({ amount, currency: 'RUB' })).toThrow(RangeError)
    }
  })
})
