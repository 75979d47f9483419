/** The fair rate of accounts, for any demands. */
import fc from 'fast-check'
import { assert, describe, it } from 'vitest'
import { fairRate } from './fair-rate.ts'

const demand = fc.record({
  rate: fc.double({ min: 0, max: 10_000, noNaN: true }),
  weight: fc.integer({ min: 1, max: 100 }),
})
const demands = fc.array(demand, { minLength: 1, maxLength: 50 })
const capacity = fc.double({ min: 1, max: 20_000, noNaN: true })
const sum = (values: ReadonlyArray<number>): number => values.reduce((a, b) => a + b, 0)

describe('the fair rate', () => {
  it('shares the whole capacity, and not more', () => {
    fc.assert(
      fc.property(demands, capacity, (wanted, available) => {
        const fair = fairRate(wanted, available)
        const given = sum(wanted.map(({ rate, weight }) => Math.min(rate, fair * weight)))
        const all = sum(wanted.map(({ rate }) => rate))
        assert.closeTo(given, Math.min(all, available), 1e-6 * available + 1e-6)
      }),
    )
  })

  it('is at least an equal part for each unit of weight', () => {
    fc.assert(
      fc.property(demands, capacity, (wanted, available) => {
        const weights = sum(wanted.map(({ weight }) => weight))
        assert.isAtLeast(fairRate(wanted, available) * weights, available * (1 - 1e-9))
      }),
    )
  })

  it('does not depend on how much the accounts above it want', () => {
    fc.assert(
      fc.property(demands, capacity, fc.integer({ min: 1, max: 100 }), (wanted, available, times) => {
        const fair = fairRate(wanted, available)
        const greedier = wanted.map(({ rate, weight }) => ({
          rate: rate > fair * weight ? rate * times : rate,
          weight,
        }))
        if (fair === Infinity) return
        assert.closeTo(fairRate(greedier, available), fair, 1e-6 * fair)
      }),
    )
  })
})
