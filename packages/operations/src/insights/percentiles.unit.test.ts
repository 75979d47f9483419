import { assert, describe, it } from 'vitest'
import { percentilesOf } from './percentiles.ts'

const SHARES = [0.5, 0.95, 0.99]

describe('percentiles of samples', () => {
  // Source: the nearest-rank definition, on the values 1 to 100.
  it('are the nearest ranks of one sample', () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i)
    assert.deepStrictEqual(percentilesOf([{ values, messages: 100 }], SHARES), [50, 95, 99])
    assert.deepStrictEqual(percentilesOf([{ values: [7], messages: 1 }], SHARES), [7, 7, 7])
  })

  it('count an hour with many messages more than one with few', () => {
    const busy = { values: [100, 100], messages: 980 }
    const quiet = { values: [9000, 9000], messages: 20 }
    assert.deepStrictEqual(percentilesOf([quiet, busy], SHARES), [100, 100, 9000])
    // The same values with the weights the other way round.
    assert.deepStrictEqual(
      percentilesOf(
        [
          { ...quiet, messages: 980 },
          { ...busy, messages: 20 },
        ],
        SHARES,
      ),
      [9000, 9000, 9000],
    )
  })

  it('are null without a value', () => {
    assert.deepStrictEqual(percentilesOf([], SHARES), [null, null, null])
    assert.deepStrictEqual(percentilesOf([{ values: [], messages: 5 }], [0.5]), [null])
  })
})
