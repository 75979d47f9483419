/**
 * Hourly counts of realistic traffic, with known truth: days, weeks and growth, networks with shares of the market,
 * outages, campaigns to old contacts, late reports, attacks, sales, and promotions in a region. The same seed makes the same traffic.
 */
import type { MessageClass } from '@hub/domain'
import { SeededRandom } from '../simulation/world/random.ts'

const HOUR_MS = 3_600_000
const HOURS_OF_WEEK = 168

/** A Monday at midnight, UTC. */
const FIRST = Date.UTC(2026, 8, 7)

/** The ranges of four networks. The share of the market is that of 2025, rounded. */
const NETWORKS = [
  {
    share: 0.31,
    ranges: ['910', '911', '912', '913', '914', '915', '916', '917', '918', '919'],
    rate: 0.975,
  },
  { share: 0.29, ranges: ['920', '921', '922', '923', '924', '925', '926', '927', '928', '929'], rate: 0.97 },
  {
    share: 0.21,
    ranges: ['960', '961', '962', '963', '964', '965', '966', '967', '968', '969'],
    rate: 0.965,
  },
  {
    share: 0.19,
    ranges: ['900', '901', '902', '904', '908', '950', '951', '952', '953', '977'],
    rate: 0.955,
  },
] as const

/** Messages of a busy hour, to all ranges together. */
const ACCOUNTS = [
  { account: 'bank', class: 'otp', perHour: 9000 },
  { account: 'shop', class: 'otp', perHour: 4000 },
  { account: 'shop', class: 'service', perHour: 6000 },
  { account: 'clinic', class: 'service', perHour: 800 },
  { account: 'taxi', class: 'otp', perHour: 1500 },
] as const

/** Messages of an hour of the day among those of the busiest one. The hours are those of Moscow, three before UTC. */
const OF_DAY = [
  6, 4, 3, 3, 4, 8, 20, 40, 62, 80, 92, 98, 100, 98, 95, 93, 92, 90, 86, 80, 68, 50, 28, 12,
] as const
const MOSCOW_HOURS = 3
const OF_WEEKEND = 0.7
const GROWTH_OF_WEEK = 1.02

/** How many of each happen in a week. */
const PER_WEEK = {
  network: 0.7,
  range: 2,
  operator: 0.3,
  campaign: 2,
  lateReports: 1,
  attack: 3,
  sale: 2,
  promotion: 0.5,
} as const

export interface TrafficRow {
  readonly account: string
  readonly class: MessageClass
  readonly range: string
  /** The start of the hour, milliseconds since the epoch. */
  readonly at: number
  readonly accepted: number
  readonly delivered: number
  /** With a final status in the end. */
  readonly final: number
}

/** What happened, as nobody knows it outside of a test. */
export interface Incident {
  readonly kind: keyof typeof PER_WEEK
  readonly from: number
  /** Not included. */
  readonly to: number
  readonly ranges: ReadonlyArray<string>
  /** Whose messages it concerns; `null`: those of all. */
  readonly account: string | null
  /** What the delivery rate is multiplied with. */
  readonly delivery: number
  /** Messages among the usual ones. */
  readonly requests: number
}

export interface RealisticTraffic {
  readonly rows: ReadonlyArray<TrafficRow>
  readonly incidents: ReadonlyArray<Incident>
  /** The end of the last hour. */
  readonly to: number
}

/** A normal distribution, as the sum of twelve uniform ones. */
const normal = (random: SeededRandom): number =>
  Array.from({ length: 12 }, () => random.next()).reduce((sum, value) => sum + value, -6)

/** How many events of this mean number happen: Poisson below thirty (Knuth), normal above. */
const countOf = (random: SeededRandom, mean: number): number => {
  if (mean > 30) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal(random)))
  const limit = Math.exp(-mean)
  let count = 0
  for (let product = random.next(); product > limit; product *= random.next()) count++
  return count
}

/** How many of `count` succeed. */
const succeeding = (random: SeededRandom, count: number, rate: number): number =>
  Math.min(count, Math.max(0, count - countOf(random, count * (1 - Math.min(1, Math.max(0, rate))))))

const ALL_RANGES = NETWORKS.flatMap(({ ranges }) => [...ranges])

const incidentsOf = (random: SeededRandom, weeks: number): ReadonlyArray<Incident> => {
  const make = (kind: Incident['kind'], hours: readonly [number, number], of: () => Partial<Incident>) =>
    Array.from({ length: countOf(random, PER_WEEK[kind] * weeks) }, (): Incident => {
      const from = FIRST + random.below(weeks * HOURS_OF_WEEK) * HOUR_MS
      return {
        kind,
        from,
        to: from + random.between(...hours) * HOUR_MS,
        ranges: ALL_RANGES,
        account: null,
        delivery: 1,
        requests: 1,
        ...of(),
      }
    })
  /** Between a fifth and four fifths of the messages still arrive. */
  const partly = (): number => 0.2 + 0.6 * random.next()
  const some = (count: number): ReadonlyArray<string> =>
    Array.from({ length: count }, () => random.pick(ALL_RANGES))
  /** An account that sends codes. */
  const codes = (): string => random.pick(['bank', 'shop', 'taxi'])
  return [
    ...make('network', [1, 8], () => ({ ranges: random.pick(NETWORKS).ranges, delivery: partly() })),
    ...make('range', [2, 12], () => ({ ranges: some(1), delivery: partly() })),
    ...make('operator', [1, 4], () => ({ delivery: partly() })),
    ...make('campaign', [1, 3], () => ({
      account: random.pick(['shop', 'clinic']),
      requests: 2 + random.below(7),
      delivery: 0.7 + 0.25 * random.next(),
    })),
    ...make('lateReports', [1, 2], () => ({})),
    ...make('attack', [2, 10], () => ({
      account: codes(),
      ranges: some(random.between(1, 3)),
      requests: 4 + random.below(12),
      delivery: 0.3 + 0.6 * random.next(),
    })),
    // Honest codes: everybody signs in, or people of one region do.
    ...make('sale', [1, 4], () => ({ account: codes(), requests: 2 + random.below(6) })),
    ...make('promotion', [3, 12], () => ({
      account: codes(),
      ranges: some(3),
      requests: 1.5 + 4.5 * random.next(),
    })),
  ]
}

/** Whether it goes on in the hour that begins at this time. */
export const isOn = ({ from, to }: Incident, at: number): boolean => from <= at && at < to

const appliesTo = (incident: Incident, account: string, messageClass: MessageClass): boolean => {
  if (incident.account === null) return true
  return incident.account === account && messageClass === (incident.kind === 'campaign' ? 'service' : 'otp')
}

/** The traffic of whole weeks. */
export const realisticTraffic = (seed: number, weeks: number): RealisticTraffic => {
  const random = new SeededRandom(seed, 'traffic')
  const incidents = incidentsOf(random, weeks)
  const hours = weeks * HOURS_OF_WEEK
  const rows: Array<TrafficRow> = []
  const sizes = new Map(ALL_RANGES.map((range) => [range, Math.exp(0.5 * normal(random))]))
  for (let hour = 0; hour < hours; hour++) {
    const at = FIRST + hour * HOUR_MS
    const on = incidents.filter((incident) => isOn(incident, at))
    const ofDay = (OF_DAY[(hour + MOSCOW_HOURS) % 24] ?? 0) / 100
    const weekend = Math.floor((hour + MOSCOW_HOURS) / 24) % 7 >= 5 ? OF_WEEKEND : 1
    const growth = GROWTH_OF_WEEK ** (hour / HOURS_OF_WEEK)
    for (const network of NETWORKS) {
      // Networks are better and worse than usual, from hour to hour.
      const mood = 0.006 * normal(random)
      for (const range of network.ranges) {
        const share = (network.share * (sizes.get(range) ?? 1)) / network.ranges.length
        for (const { account, class: messageClass, perHour } of ACCOUNTS) {
          const affecting = on.filter(
            (one) => one.ranges.includes(range) && appliesTo(one, account, messageClass),
          )
          const requests = affecting.reduce((product, one) => product * one.requests, 1)
          const busyness = Math.exp(0.1 * normal(random))
          const usual = perHour * share * ofDay * weekend * growth * busyness
          const accepted = countOf(random, usual * requests)
          if (accepted === 0) continue
          const base = (network.rate + mood) * (messageClass === 'service' ? 0.97 : 1)
          const rate = affecting.reduce((product, one) => product * one.delivery, base)
          rows.push({
            account,
            class: messageClass,
            range,
            at,
            accepted,
            delivered: succeeding(random, accepted, rate),
            final: accepted,
          })
        }
      }
    }
  }
  return { rows, incidents, to: FIRST + hours * HOUR_MS }
}

/** The messages whose report has arrived: refusals come at once, reports later. */
export const withPendingReports = (row: TrafficRow, reported: number): TrafficRow => {
  const failed = row.final - row.delivered
  // A third of the failures are refusals of the SMS operator.
  const refused = Math.round(failed / 3)
  const delivered = Math.round(row.delivered * reported)
  return { ...row, delivered, final: delivered + refused + Math.round((failed - refused) * reported) }
}
