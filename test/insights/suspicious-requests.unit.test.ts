/** Precision and recall of the detector of suspicious requests, on generated traffic whose truth is known. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { periodsToRead, type RangeRequests, REQUEST_HOURS, suspiciousRequests } from '@hub/domain'
import { assert, describe, it } from 'vitest'
import { type Incident, isOn, realisticTraffic, type TrafficRow } from './realistic-traffic.ts'

const HOUR_MS = 3_600_000
const HOURS_OF_WEEK = 168
const WEEKS = 7
/** The weeks that are watched. Those before are their baseline. */
const WATCHED = 2
const SEEDS = [11, 12, 13, 14, 15]

/** An attack that is worth a sentence: as many codes to a range in the hours that are looked at. */
const WORTH = 100

const requestsIn = (
  hours: ReadonlyMap<number, ReadonlyArray<TrafficRow>>,
  { from, to }: { readonly from: number; readonly to: number },
  week: number,
): ReadonlyArray<RangeRequests> => {
  const sums = new Map<string, RangeRequests>()
  for (let at = from; at < to; at += HOUR_MS) {
    for (const row of hours.get(at) ?? []) {
      if (row.class !== 'otp') continue
      const { account, range } = row
      const key = `${account} ${range}`
      const sum = sums.get(key) ?? { account, range, week, accepted: 0, delivered: 0, final: 0 }
      sums.set(key, {
        ...sum,
        accepted: sum.accepted + row.accepted,
        delivered: sum.delivered + row.delivered,
        final: sum.final + row.final,
      })
    }
  }
  return [...sums.values()]
}

const countsOf = (seed: number) => {
  const { incidents, rows, to } = realisticTraffic(seed, WEEKS)
  const hours = Map.groupBy(rows, ({ at }) => at)
  const from = to - WATCHED * HOURS_OF_WEEK * HOUR_MS
  const watched = Array.from({ length: WATCHED * HOURS_OF_WEEK }, (_, i) => from + i * HOUR_MS).map((now) => {
    const found = periodsToRead(now, REQUEST_HOURS).flatMap((period, week) => requestsIn(hours, period, week))
    return { now, present: found.filter(({ week }) => week === 0), findings: suspiciousRequests(found) }
  })
  const attacks = incidents.filter(({ kind }) => kind === 'attack')
  const promotions = incidents.filter(({ kind }) => kind === 'promotion')
  const isCause = (attack: Incident, account: string, range: string, now: number): boolean =>
    attack.account === account &&
    attack.ranges.includes(range) &&
    attack.from <= now &&
    now < attack.to + (REQUEST_HOURS - 1) * HOUR_MS
  const named = watched.flatMap(({ findings, now }) =>
    findings.map(({ account, range }) => ({
      isRight: attacks.some((attack) => isCause(attack, account, range, now)),
      isPromotion: promotions.some((promotion) => isCause(promotion, account, range, now)),
    })),
  )
  const worth = attacks
    .filter((attack) => attack.from >= from && attack.to <= to)
    .flatMap((attack) => attack.ranges.map((range) => ({ attack, range })))
    .filter(({ attack, range }) =>
      watched.some(
        ({ now, present }) =>
          isOn(attack, now) &&
          present.some(
            (one) =>
              one.account === attack.account &&
              one.range === range &&
              one.accepted * (1 - 1 / attack.requests) >= WORTH,
          ),
      ),
    )
  const found = worth.filter(({ attack, range }) =>
    watched.some(
      ({ findings, now }) =>
        isOn(attack, now) && findings.some((one) => one.account === attack.account && one.range === range),
    ),
  )
  return {
    hours: watched.length,
    sentences: named.length,
    wrong: named.filter(({ isRight }) => !isRight).length,
    ofPromotions: named.filter(({ isPromotion, isRight }) => !isRight && isPromotion).length,
    attacks: worth.length,
    found: found.length,
  }
}

describe('suspicious requests', () => {
  it('are named as often as the docs say', () => {
    const sum = SEEDS.map(countsOf).reduce((a, b) => ({
      hours: a.hours + b.hours,
      sentences: a.sentences + b.sentences,
      wrong: a.wrong + b.wrong,
      ofPromotions: a.ofPromotions + b.ofPromotions,
      attacks: a.attacks + b.attacks,
      found: a.found + b.found,
    }))
    const right = sum.sentences - sum.wrong
    const percent = (share: number): string => (100 * share).toFixed(1)
    const docs = readFileSync(join(import.meta.dirname, '../../docs/decisions/read-models.md'), 'utf8')
    const stated = /In \d+ hours, \d+ of \d+ findings .*?recall [\d.]+ %\)\./u.exec(
      docs.replaceAll(/\s+/gu, ' '),
    )
    assert.strictEqual(
      stated?.[0],
      `In ${sum.hours} hours, ${right} of ${sum.sentences} findings were right (precision ${percent(right / sum.sentences)} %), ` +
        `${sum.ofPromotions} of the ${sum.wrong} false alarms were about a promotion, and ${sum.found} of ${sum.attacks} attacked ranges were named during the attack (recall ${percent(sum.found / sum.attacks)} %).`,
    )
  })
})
