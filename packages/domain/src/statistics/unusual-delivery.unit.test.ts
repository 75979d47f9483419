import { assert, describe, it } from '@effect/vitest'
import { BASELINE_WEEKS, hourOf, periodsToRead } from './hours.ts'
import { median, robustDeviation, weightedMedian } from './robust.ts'
import { DELIVERY_HOURS, type RangeHour, unusualDelivery } from './unusual-delivery.ts'

const HOUR = 3_600_000
const WEEK = 168 * HOUR
/** A Saturday, 14:00 UTC. */
const LAST = Date.UTC(2026, 10, 21, 14)
const NOW = LAST + HOUR / 3

type Hours = ReadonlyArray<Partial<RangeHour>>

/** 200 messages, of which 97 % are delivered, in each hour that is read; and what is different. */
const traffic = (different: Hours, ranges: ReadonlyArray<string> = ['912']): ReadonlyArray<RangeHour> =>
  periodsToRead(NOW, DELIVERY_HOURS).flatMap(({ from, to }) =>
    Array.from({ length: (to - from) / HOUR }, (_, i) => from + i * HOUR).flatMap((at) =>
      ranges.map((range) => ({
        range,
        at,
        accepted: 200,
        final: 200,
        delivered: 194,
        ...different.find((one) => one.at === at && (one.range ?? range) === range),
      })),
    ),
  )

const found = (different: Hours, ranges?: ReadonlyArray<string>) =>
  unusualDelivery(traffic(different, ranges), NOW).map(({ range, rate, since, usual }) => ({
    range,
    since: (since - LAST) / HOUR,
    rate: Number(rate.toFixed(2)),
    usual: Number(usual.toFixed(2)),
  }))

const since = (hours: number): Hours =>
  Array.from({ length: hours }, (_, i) => ({ at: LAST - i * HOUR, delivered: 122 }))

describe('robust statistics', () => {
  // Source: the definitions, on the example of Rousseeuw and Croux (1993): 0.7, 1.0, 1.2 around their median.
  it('are the median, and the scaled median of the distances to it', () => {
    assert.strictEqual(median([6.27, 6.34, 6.25, 63.1, 6.28]), 6.28)
    assert.strictEqual(median([4, 1, 3, 2]), 2.5)
    assert.isNaN(median([]))
    const one = { value: 5, weight: 1 }
    assert.strictEqual(weightedMedian([one, { value: 2, weight: 1 }, { value: 9, weight: 1 }]), 5)
    assert.strictEqual(weightedMedian([one, { value: 2, weight: 3 }, { value: 1, weight: 0 }]), 2)
    assert.isNaN(weightedMedian([{ value: 1, weight: 0 }]))
    assert.closeTo(robustDeviation([6.27, 6.34, 6.25, 63.1, 6.28], 6.28), 1.4826 * 0.03, 1e-9)
  })
})

describe('the hours to read', () => {
  it('are the last ones, and the same ones of the earlier weeks', () => {
    assert.strictEqual(hourOf(NOW), LAST)
    const periods = periodsToRead(NOW, 3)
    assert.lengthOf(periods, 1 + BASELINE_WEEKS)
    assert.deepStrictEqual(periods[0], { from: LAST - 2 * HOUR, to: LAST + HOUR })
    assert.deepStrictEqual(periods[2], { from: LAST - 2 * WEEK - 2 * HOUR, to: LAST - 2 * WEEK + HOUR })
  })
})

describe('unusual delivery', () => {
  it('is named with its first hour, its rate and the usual one', () => {
    assert.deepStrictEqual(found([]), [])
    assert.deepStrictEqual(found(since(1)), [{ range: '912', since: 0, rate: 0.61, usual: 0.97 }])
    assert.deepStrictEqual(found(since(5)), [{ range: '912', since: -4, rate: 0.61, usual: 0.97 }])
    assert.deepStrictEqual(found(since(DELIVERY_HOURS)), [
      { range: '912', since: 1 - DELIVERY_HOURS, rate: 0.61, usual: 0.97 },
    ])
  })

  it('is over with the first hour that is as usual', () => {
    assert.deepStrictEqual(found(since(5).slice(1)), [])
  })

  it('is only a drop of ten points that chance does not explain', () => {
    assert.deepStrictEqual(found([{ at: LAST, delivered: 178 }]), [])
    assert.lengthOf(found([{ at: LAST, delivered: 172 }]), 1)
    // The rate is always like that.
    const weeks = [0, 1, 2, 3, 4, 5].map((week) => ({
      at: LAST - week * WEEK,
      delivered: 150 - 20 * (week % 2),
    }))
    assert.deepStrictEqual(found(weeks), [])
    // Higher than usual.
    assert.deepStrictEqual(
      found([1, 2, 3, 4, 5].map((week) => ({ at: LAST - week * WEEK, delivered: 120 }))),
      [],
    )
  })

  it('does not become usual because of two weeks with a fault', () => {
    const faults = [1, 2].map((week) => ({ at: LAST - week * WEEK, delivered: 100 }))
    assert.deepStrictEqual(found([...since(1), ...faults]), [
      { range: '912', since: 0, rate: 0.61, usual: 0.97 },
    ])
  })

  it('does not count messages without a final status as failures', () => {
    // Of the 120 final ones, 97 % are delivered.
    assert.deepStrictEqual(found([{ at: LAST, final: 120, delivered: 116 }]), [])
    // Only the refusals are final yet.
    assert.deepStrictEqual(found([{ at: LAST, accepted: 2000, final: 60, delivered: 0 }]), [])
    // Then the hours before count.
    assert.deepStrictEqual(
      found([{ at: LAST, accepted: 2000, final: 60, delivered: 0 }, ...since(4).slice(1)]),
      [{ range: '912', since: -3, rate: 0.61, usual: 0.97 }],
    )
  })

  it('needs messages, now and in three earlier weeks', () => {
    const few = { accepted: 29, final: 29, delivered: 5 }
    assert.deepStrictEqual(found([{ at: LAST, ...few }]), [])
    const without = (weeks: ReadonlyArray<number>) =>
      found([...since(1), ...weeks.map((week) => ({ at: LAST - week * WEEK, ...few }))])
    assert.lengthOf(without([1, 2]), 1)
    assert.deepStrictEqual(without([1, 2, 3]), [])
    assert.deepStrictEqual(unusualDelivery([], NOW), [])
    // Eight of forty are a chance that some range has at night.
    assert.deepStrictEqual(found([{ at: LAST, accepted: 40, final: 40, delivered: 30 }]), [])
  })

  it('is not named any more when three hours cannot be judged', () => {
    const quiet = (hours: number): Hours =>
      Array.from({ length: hours }, (_, i) => ({ at: LAST - i * HOUR, accepted: 3, final: 3, delivered: 3 }))
    assert.lengthOf(found([...quiet(2), ...since(5)]), 1)
    assert.deepStrictEqual(found([...quiet(3), ...since(5)]), [])
  })

  it('is one finding if all ranges share it, and names a range that is worse', () => {
    const ranges = ['910', '911', '912', '913', '914']
    const all = { range: null, since: -1, rate: 0.61, usual: 0.97 }
    assert.deepStrictEqual(found(since(2), ranges), [all])
    assert.deepStrictEqual(found([{ at: LAST, range: '911', delivered: 40 }, ...since(2)], ranges), [
      { ...all, rate: 0.57 },
      { range: '911', since: 0, rate: 0.2, usual: 0.97 },
    ])
    // Two of five: those of a network.
    const two = since(2).flatMap((hour) => ['910', '911'].map((range) => ({ ...hour, range })))
    assert.deepStrictEqual(
      found(two, ranges).map(({ range }) => range),
      ['910', '911'],
    )
  })

  it('has the range that loses the most messages first', () => {
    const at = LAST
    const different = [
      { at, range: '910', delivered: 150 },
      { at, range: '911', delivered: 80 },
    ]
    assert.deepStrictEqual(
      found(different, ['910', '911', '912']).map(({ range }) => range),
      ['911', '910'],
    )
  })
})
