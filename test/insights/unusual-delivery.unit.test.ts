/** Precision and recall of the detector of unusual delivery, on generated traffic whose truth is known. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DELIVERY_HOURS, periodsToRead, type RangeHour, unusualDelivery } from '@hub/domain'
import { assert, describe, it } from 'vitest'
import {
  type Incident,
  isOn,
  realisticTraffic,
  type TrafficRow,
  withPendingReports,
} from './realistic-traffic.ts'

const HOUR_MS = 3_600_000
const HOURS_OF_WEEK = 168
const WEEKS = 7
/** The weeks that are watched. Those before are their baseline. */
const WATCHED = 2
const SEEDS = [1, 2, 3, 4, 5]

/** The share of the reports of the hour that is not over, and that share while reports are late. */
const REPORTED = { usually: 0.9, late: 0.1 }

/** A fault that is worth a sentence: as many messages of a range fail that are usually delivered. */
const WORTH = 40
/** What is usually delivered, at least. */
const USUALLY = 0.94

/** A fault may be named while the hours that follow it have too few messages to be judged. */
const HOURS_AFTER = 3

const byRange = (rows: ReadonlyArray<TrafficRow>): ReadonlyArray<RangeHour> => {
  const sums = new Map<string, RangeHour>()
  for (const { accepted, at, delivered, final, range } of rows) {
    const sum = sums.get(range) ?? { range, at, accepted: 0, delivered: 0, final: 0 }
    sums.set(range, {
      range,
      at,
      accepted: sum.accepted + accepted,
      delivered: sum.delivered + delivered,
      final: sum.final + final,
    })
  }
  return [...sums.values()]
}

/** Fewer messages arrive because of a network, not because of who asked for them. */
const isFault = ({ kind }: Incident): boolean =>
  kind === 'network' || kind === 'range' || kind === 'operator' || kind === 'attack'

const countsOf = (seed: number) => {
  const { incidents, rows, to } = realisticTraffic(seed, WEEKS)
  const hours = Map.groupBy(rows, ({ at }) => at)
  const settled = new Map([...hours].map(([at, of]) => [at, byRange(of)]))
  const late = incidents.filter(({ kind }) => kind === 'lateReports')
  const pending = (at: number) => {
    const reported = late.some((one) => isOn(one, at)) ? REPORTED.late : REPORTED.usually
    return byRange((hours.get(at) ?? []).map((row) => withPendingReports(row, reported)))
  }
  const faults = incidents.filter(isFault)
  const from = to - WATCHED * HOURS_OF_WEEK * HOUR_MS
  /** The findings of each hour. */
  const watched = Array.from({ length: WATCHED * HOURS_OF_WEEK }, (_, i) => from + i * HOUR_MS).map((now) => {
    const before = periodsToRead(now, DELIVERY_HOURS).flatMap((period) =>
      Array.from({ length: (period.to - period.from) / HOUR_MS }, (_, i) => period.from + i * HOUR_MS),
    )
    const counts = before.flatMap((at) => (at === now ? pending(at) : (settled.get(at) ?? [])))
    return { now, findings: unusualDelivery(counts, now) }
  })
  const isCause = (fault: Incident, range: string | null, now: number): boolean =>
    fault.from <= now &&
    now < fault.to + HOURS_AFTER * HOUR_MS &&
    (range === null ? fault.kind === 'operator' || fault.kind === 'network' : fault.ranges.includes(range))
  const named = watched.flatMap(({ findings, now }) =>
    findings.map(({ range }) => ({
      isRight: faults.some((fault) => isCause(fault, range, now)),
      isCampaign: incidents.some((one) => one.kind === 'campaign' && isOn(one, now)),
    })),
  )
  const lostOf = (fault: Incident, range: string): number =>
    [...settled]
      .filter(([at]) => isOn(fault, at))
      .flatMap(([, of]) => of.filter((one) => one.range === range))
      .reduce((sum, { delivered, final }) => sum + USUALLY * final - delivered, 0)
  const worth = faults
    .filter((fault) => fault.from >= from && fault.to <= to)
    .flatMap((fault) => fault.ranges.map((range) => ({ fault, range })))
    .filter(({ fault, range }) => lostOf(fault, range) >= WORTH)
  const found = worth.filter(({ fault, range }) =>
    watched.some(({ findings, now }) =>
      findings.some((finding) =>
        finding.range === null
          ? fault.kind === 'operator' && isOn(fault, now)
          : finding.range === range && isOn(fault, now),
      ),
    ),
  )
  return {
    hours: watched.length,
    sentences: named.length,
    wrong: named.filter(({ isRight }) => !isRight).length,
    ofCampaigns: named.filter(({ isCampaign, isRight }) => !isRight && isCampaign).length,
    faults: worth.length,
    found: found.length,
  }
}

describe('unusual delivery', () => {
  it('is named as often as the docs say', () => {
    const sum = SEEDS.map(countsOf).reduce((a, b) => ({
      hours: a.hours + b.hours,
      sentences: a.sentences + b.sentences,
      wrong: a.wrong + b.wrong,
      ofCampaigns: a.ofCampaigns + b.ofCampaigns,
      faults: a.faults + b.faults,
      found: a.found + b.found,
    }))
    const percent = (share: number): string => (100 * share).toFixed(1)
    const right = sum.sentences - sum.wrong
    const docs = readFileSync(join(import.meta.dirname, '../../docs/decisions/read-models.md'), 'utf8')
    const stated = /In \d+ hours, \d+ of \d+ sentences .*?recall [\d.]+ %\)\./u.exec(
      docs.replaceAll(/\s+/gu, ' '),
    )
    assert.strictEqual(
      stated?.[0],
      `In ${sum.hours} hours, ${right} of ${sum.sentences} sentences were right (precision ${percent(right / sum.sentences)} %), ` +
        `${sum.ofCampaigns} of the ${sum.wrong} false alarms were about a campaign to old contacts, and ${sum.found} of ` +
        `${sum.faults} faults were named while they went on (recall ${percent(sum.found / sum.faults)} %).`,
    )
  })
})
