/**
 * Names the accounts and number ranges for which many more codes are requested than usual, and more than for the other
 * ranges of the account: somebody may earn money with messages to these numbers. Nothing is blocked because of it.
 * Source: docs/decisions/read-models.md#traffic-guard, which has the precision and the false alarms.
 */
import { BASELINE_WEEKS, MIN_BASELINE_WEEKS } from './hours.ts'
import { median, weightedMedian } from './robust.ts'

/** An attack is seen within an hour of its begin, and a single busy hour counts for a third. */
export const REQUEST_HOURS = 3

/** Fewer codes cost little, and a range of a small account has them by chance. */
const MIN_REQUESTS = 60

/** A range that became popular, such as one of a new tariff, grows more slowly. */
const MIN_RATIO = 4

/** Codes of an account and a range. */
interface Requests {
  readonly accepted: number
  readonly delivered: number
  /** With a final status. */
  readonly final: number
}

/** The codes of an account for a range in `REQUEST_HOURS`. */
export interface RangeRequests extends Requests {
  readonly account: string
  readonly range: string
  /** 0: the last hours. 1: the same hours one week before, and so on. */
  readonly week: number
}

export interface SuspiciousRequests extends Requests {
  readonly account: string
  readonly range: string
  /** The codes that are expected of the account for this range in these hours. */
  readonly expected: number
  /** The share of the codes with a final status that was delivered, from 0 to 1; `null` without any. */
  readonly rate: number | null
  /** The share of the same hours of earlier weeks; `null` without any. */
  readonly usualRate: number | null
}

const rateOf = ({ delivered, final }: Pick<Requests, 'delivered' | 'final'>): number | null =>
  final === 0 ? null : delivered / final

/** The codes of each earlier week. */
const weeksOf = (rows: ReadonlyArray<RangeRequests>): ReadonlyArray<number> =>
  Array.from({ length: BASELINE_WEEKS }, (_, i) =>
    rows.reduce((sum, { accepted, week }) => (week === i + 1 ? sum + accepted : sum), 0),
  )

const sumOf = (rows: ReadonlyArray<RangeRequests>): Requests =>
  rows.reduce<Requests>(
    (sum, row) => ({
      accepted: sum.accepted + row.accepted,
      delivered: sum.delivered + row.delivered,
      final: sum.final + row.final,
    }),
    { accepted: 0, delivered: 0, final: 0 },
  )

const isNow = ({ week }: RangeRequests): boolean => week === 0
const isBefore = (row: RangeRequests): boolean => !isNow(row)

/** The usual codes of an account, or of the hub, by range. */
type Profile = ReadonlyMap<string, number>

/** The median of the weeks with any codes. With too few of them there is no profile. */
const profileOf = (rows: ReadonlyArray<RangeRequests>): Profile => {
  const known = weeksOf(rows).map((accepted) => accepted > 0)
  if (known.filter(Boolean).length < MIN_BASELINE_WEEKS) return new Map()
  return new Map(
    [...Map.groupBy(rows, ({ range }) => range)].map(([range, of]) => [
      range,
      median(weeksOf(of).filter((_, i) => known[i] === true)),
    ]),
  )
}

/**
 * By how much a profile must be multiplied to be the present codes of an account for its other ranges: the median of
 * these, by their weight in the profile. So an attack on some of them does not matter; 0 without other ranges.
 */
const scaleOf = (profile: Profile, now: ReadonlyMap<string, Requests>, than: string): number => {
  const scale = weightedMedian(
    [...profile].flatMap(([range, weight]) =>
      weight > 0 && range !== than ? [{ value: (now.get(range)?.accepted ?? 0) / weight, weight }] : [],
    ),
  )
  return Number.isNaN(scale) ? 0 : scale
}

/**
 * The accounts and ranges with far too many codes, the one with the most above what is expected first. `rows` has each
 * account, range and week once; without codes there is no row.
 *
 * What is expected is the usual number, times the growth of most of its other ranges: a sale or a campaign brings
 * codes for all ranges. For an account with a short history, and for a range that it never had, it is the share of the
 * range among the codes of the whole hub, in proportion to the other ranges of the account.
 */
export const suspiciousRequests = (rows: ReadonlyArray<RangeRequests>): ReadonlyArray<SuspiciousRequests> => {
  const hub = profileOf(rows)
  // A hub in its first weeks has nothing to compare with.
  if (hub.size === 0) return []
  return [...Map.groupBy(rows, ({ account }) => account)]
    .flatMap(([account, ofAccount]) => {
      const ranges = Map.groupBy(ofAccount, ({ range }) => range)
      const now = new Map([...ranges].map(([range, of]) => [range, sumOf(of.filter(isNow))]))
      const usual = profileOf(ofAccount)
      return [...now].flatMap(([range, counts]): ReadonlyArray<SuspiciousRequests> => {
        if (counts.accepted < MIN_REQUESTS) return []
        const growth = Math.max(1, scaleOf(usual, now, range))
        const own = (usual.get(range) ?? 0) * growth
        const expected = own > 0 ? own : (hub.get(range) ?? 0) * scaleOf(hub, now, range)
        if (counts.accepted < MIN_RATIO * expected) return []
        const before = sumOf((ranges.get(range) ?? []).filter(isBefore))
        return [{ account, range, ...counts, expected, rate: rateOf(counts), usualRate: rateOf(before) }]
      })
    })
    .toSorted((a, b) => b.accepted - b.expected - (a.accepted - a.expected))
}
