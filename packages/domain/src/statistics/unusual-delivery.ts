/**
 * Names the number ranges whose delivery rate is unusually low now, and since when. The rate of an hour is compared
 * with the median of the same hour of earlier weeks. Source: docs/decisions/read-models.md#unusual-delivery, which
 * has the precision and the false alarms.
 */
import { earlierWeeks, hoursBack, MIN_BASELINE_WEEKS } from './hours.ts'
import { median, robustDeviation } from './robust.ts'

/** A fault that began earlier is reported as one since the first of these hours. */
export const DELIVERY_HOURS = 24

/**
 * The newest hour with enough messages decides whether a fault is present, and it must be among so many. In the night, an
 * hour may have too few messages.
 */
const PRESENT_HOURS = 3

/** Messages with a final status. With fewer, chance alone moves a rate of 95 % by more than ten points. */
const MIN_FINAL = 30

/**
 * Messages without a final status are not failures. But refusals come in a second and reports later: while most messages
 * wait for their report, the rate is that of the refusals.
 */
const MIN_FINAL_SHARE = 0.5

/** A lower drop concerns few people, and every range has one some day. */
const MIN_DROP = 0.1

/**
 * Messages that failed beyond the usual ones since the fault began. In the night a few failures are a large share, and
 * some of the thousand hours have them by chance.
 */
const MIN_LOST = 20

/** Standard deviations from the median. Some thousand hours of ranges are judged in a day, so three of them are too few. */
const DEVIATIONS = 4

/** Ranges that are compared with each other. Of fewer, one half can be the ranges of one network. */
const MIN_RANGES = 5

/** The messages of a number range that were accepted in an hour. */
export interface RangeHour {
  /** Three digits: `912`. */
  readonly range: string
  /** The start of the hour, milliseconds since the epoch. */
  readonly at: number
  readonly accepted: number
  readonly delivered: number
  /** With a final status. */
  readonly final: number
}

export interface UnusualDelivery {
  /** `null`: all ranges alike. */
  readonly range: string | null
  /** The start of the first hour, milliseconds since the epoch. */
  readonly since: number
  /** Messages since then, those delivered, and the share of these from 0 to 1. */
  readonly final: number
  readonly delivered: number
  readonly rate: number
  /** The share in the same hours of earlier weeks. */
  readonly usual: number
}

interface Judged {
  readonly counts: RangeHour
  readonly usual: number
  /** How much lower the rate is than usual; negative if it is higher. */
  readonly drop: number
  /** A larger drop is unusual. */
  readonly allowed: number
}

const rateOf = ({ delivered, final }: Pick<RangeHour, 'delivered' | 'final'>): number => delivered / final

/** `null`: there are too few messages, now or in the earlier weeks. */
const judge = (counts: RangeHour | undefined, earlier: ReadonlyArray<RangeHour>): Judged | null => {
  if (counts === undefined || counts.final < MIN_FINAL) return null
  if (counts.final < MIN_FINAL_SHARE * counts.accepted) return null
  const rates = earlier.filter(({ final }) => final >= MIN_FINAL).map(rateOf)
  if (rates.length < MIN_BASELINE_WEEKS) return null
  const usual = median(rates)
  const ofWeeks = robustDeviation(rates, usual)
  const ofChance = Math.sqrt((usual * (1 - usual)) / counts.final)
  return {
    counts,
    usual,
    drop: usual - rateOf(counts),
    allowed: Math.max(MIN_DROP, DEVIATIONS * Math.hypot(ofWeeks, ofChance)),
  }
}

interface Hour {
  readonly at: number
  readonly ranges: ReadonlyMap<string, Judged>
  /** What all ranges have in common: the median of their drops, and at least zero. */
  readonly common: number
}

const judgeHour = (found: ReadonlyMap<string, ReadonlyMap<number, RangeHour>>, at: number): Hour => {
  const weeks = earlierWeeks(at)
  const ranges = new Map(
    [...found].flatMap(([range, hours]) => {
      const judged = judge(
        hours.get(at),
        weeks.flatMap((week) => hours.get(week) ?? []),
      )
      return judged === null ? [] : [[range, judged] as const]
    }),
  )
  const drops = [...ranges.values()].map(({ drop }) => drop)
  return { at, ranges, common: drops.length < MIN_RANGES ? 0 : Math.max(0, median(drops)) }
}

/**
 * The judged hours of a fault, the newest first: those until the first hour that is as usual. `judgedIn`: what is
 * judged of an hour, nothing if it cannot be. `isUnusual`: whether it shows the fault.
 */
const hoursOf = (
  hours: ReadonlyArray<Hour>,
  judgedIn: (hour: Hour) => ReadonlyArray<Judged>,
  isUnusual: (hour: Hour) => boolean,
): ReadonlyArray<{ readonly at: number; readonly judged: ReadonlyArray<Judged> }> => {
  const last = hours.findIndex((hour) => judgedIn(hour).length > 0)
  if (last === -1 || last >= PRESENT_HOURS) return []
  const known = hours.filter((hour) => judgedIn(hour).length > 0)
  const end = known.findIndex((hour) => !isUnusual(hour))
  return (end === -1 ? known : known.slice(0, end)).map((hour) => ({ at: hour.at, judged: judgedIn(hour) }))
}

const findingOf = (range: string | null, hours: ReturnType<typeof hoursOf>): UnusualDelivery | null => {
  const first = hours.at(-1)
  if (first === undefined) return null
  const judged = hours.flatMap((hour) => hour.judged)
  const sum = (value: (of: Judged) => number): number => judged.reduce((total, of) => total + value(of), 0)
  const final = sum(({ counts }) => counts.final)
  const delivered = sum(({ counts }) => counts.delivered)
  return {
    range,
    since: first.at,
    final,
    delivered,
    rate: delivered / final,
    usual: sum(({ counts, usual }) => usual * counts.final) / final,
  }
}

/** How many more messages would usually be delivered. */
const lost = ({ final, rate, usual }: UnusualDelivery): number => (usual - rate) * final

/**
 * The ranges whose delivery rate is unusually low at `until` (milliseconds since the epoch), those that lose the most
 * messages first. `counts` has each range and hour once: the `DELIVERY_HOURS` that end with the one of `until`, and the
 * same ones of the earlier weeks. A drop that all ranges share is a finding of its own, and no range is named because of it.
 */
export const unusualDelivery = (
  counts: ReadonlyArray<RangeHour>,
  until: number,
): ReadonlyArray<UnusualDelivery> => {
  const found = new Map<string, Map<number, RangeHour>>()
  for (const of of counts) {
    const hours = found.get(of.range) ?? new Map<number, RangeHour>()
    hours.set(of.at, of)
    found.set(of.range, hours)
  }
  const hours = hoursBack(until, DELIVERY_HOURS).map((at) => judgeHour(found, at))
  const all = findingOf(
    null,
    hoursOf(
      hours,
      ({ ranges }) => (ranges.size < MIN_RANGES ? [] : [...ranges.values()]),
      ({ common }) => common > MIN_DROP,
    ),
  )
  const single = [...found.keys()].flatMap((range) => {
    const finding = findingOf(
      range,
      hoursOf(
        hours,
        ({ ranges }) => {
          const of = ranges.get(range)
          return of === undefined ? [] : [of]
        },
        ({ common, ranges }) => {
          const of = ranges.get(range)
          return of !== undefined && of.drop - common > of.allowed
        },
      ),
    )
    return finding ?? []
  })
  return [...(all === null ? [] : [all]), ...single.toSorted((a, b) => lost(b) - lost(a))].filter(
    (finding) => lost(finding) >= MIN_LOST,
  )
}
