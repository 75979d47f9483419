import { assert, describe, it } from '@effect/vitest'
import { BASELINE_WEEKS } from './hours.ts'
import { type RangeRequests, suspiciousRequests } from './suspicious-requests.ts'

const RANGES = ['910', '911', '912', '920', '960']

/** Codes by account and range: now, and in each of the earlier weeks. Of these, 90 % are delivered. */
const rows = (
  counts: Readonly<Record<string, readonly [now: number, before: number]>>,
  weeks: number = BASELINE_WEEKS,
): ReadonlyArray<RangeRequests> =>
  Object.entries(counts).flatMap(([key, [now, before]]) => {
    const [account = '', range = ''] = key.split(' ')
    return Array.from({ length: weeks + 1 }, (_, week) => (week === 0 ? now : before)).flatMap(
      (accepted, week) =>
        accepted === 0
          ? []
          : [{ account, range, week, accepted, final: accepted, delivered: Math.round(accepted * 0.9) }],
    )
  })

/** An account with the same traffic to each range. */
const evenly = (account: string, now: number, before: number) =>
  Object.fromEntries(RANGES.map((range) => [`${account} ${range}`, [now, before] as const]))

const found = (all: ReadonlyArray<RangeRequests>) =>
  suspiciousRequests(all).map(({ account, expected, range }) => [account, range, Math.round(expected)])

describe('suspicious requests', () => {
  it('are those of one range, far above the usual number', () => {
    const usual = evenly('bank', 100, 100)
    assert.deepStrictEqual(found(rows(usual)), [])
    assert.deepStrictEqual(found(rows({ ...usual, 'bank 912': [900, 100] })), [['bank', '912', 100]])
    assert.deepStrictEqual(found(rows({ ...usual, 'bank 912': [399, 100] })), [])
    const [one] = suspiciousRequests(rows({ ...usual, 'bank 912': [900, 100] }))
    assert.deepInclude(one, { accepted: 900, delivered: 810, rate: 0.9, usualRate: 0.9 })
  })

  it('are not those of a sale, which brings codes for all ranges', () => {
    assert.deepStrictEqual(found(rows(evenly('shop', 900, 100))), [])
    // An attack during the sale.
    assert.deepStrictEqual(found(rows({ ...evenly('shop', 300, 100), 'shop 912': [1500, 100] })), [
      ['shop', '912', 300],
    ])
  })

  it('can be for a range that the account never had', () => {
    const { 'bank 912': _, ...others } = evenly('bank', 100, 100)
    // The range has a ninth of the codes of the hub, and so has each of the others of the account.
    const all = { ...others, ...evenly('shop', 100, 100) }
    assert.deepStrictEqual(found(rows({ ...all, 'bank 912': [900, 0] })), [['bank', '912', 50]])
    assert.deepStrictEqual(found(rows({ ...all, 'bank 912': [60, 0] })), [])
  })

  it('of a new account are compared with the ranges of the hub', () => {
    const old = evenly('bank', 100, 100)
    const fresh = evenly('new', 80, 0)
    assert.deepStrictEqual(found(rows({ ...old, ...fresh })), [])
    assert.deepStrictEqual(found(rows({ ...old, ...fresh, 'new 912': [900, 0] })), [['new', '912', 80]])
    // Two weeks are no history.
    assert.deepStrictEqual(found([...rows(old), ...rows(evenly('young', 800, 50), 2)]), [])
  })

  it('can be those of an account with one range', () => {
    assert.deepStrictEqual(found(rows({ ...evenly('bank', 100, 100), 'one 912': [900, 100] })), [
      ['one', '912', 100],
    ])
  })

  it('are at least sixty, and those with the most above the expected ones come first', () => {
    const few = evenly('small', 1, 1)
    assert.deepStrictEqual(found(rows({ ...few, 'small 912': [59, 1] })), [])
    assert.deepStrictEqual(
      found(rows({ ...evenly('bank', 100, 100), 'bank 910': [800, 100], 'bank 960': [900, 100] })).map(
        ([, range]) => range,
      ),
      ['960', '910'],
    )
    assert.deepStrictEqual(suspiciousRequests([]), [])
    // A new hub.
    assert.deepStrictEqual(found(rows({ 'bank 912': [900, 100], 'bank 910': [9, 100] }, 2)), [])
  })

  it('are compared with the median of the weeks, which one attack does not change', () => {
    const all = rows({ ...evenly('bank', 100, 100), 'bank 912': [900, 100] }).map((row) =>
      row.range === '912' && row.week <= 2 && row.week > 0 ? { ...row, accepted: 900 } : row,
    )
    assert.deepStrictEqual(
      found(all).map(([, range]) => range),
      ['912'],
    )
  })
})
