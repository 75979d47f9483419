/** Plans the faults of a run from its seed. */
import { type Random, seededRandom } from '../support/seeded-random.ts'

/** What each fault does is in `faults.ts`. */
export const FAULT_NAMES = [
  'kill',
  'stop',
  'broker-loss',
  'leader-moves',
  'kafka-disk-full',
  'postgres-disk-full',
  'postgres-failover',
  'redis-loss',
  'operator-absence',
  'operator-throttling',
  'lost-reports',
  'repeated-reports',
  'lost-answers',
  'receiver-hang',
  'network-reset',
  'network-half-open',
  'network-one-way',
  'network-delay',
  'network-partition',
  'clock-skew',
] as const
export type FaultName = (typeof FAULT_NAMES)[number]

/** The faults that a run can have once only: the former primary does not become a standby again. */
const ONCE: ReadonlySet<FaultName> = new Set(['postgres-failover'])

export interface PlannedFault {
  readonly name: FaultName
  /** From the begin of the load, in seconds. */
  readonly at: number
  /** In seconds. */
  readonly lasts: number
  /** Selects the target. */
  readonly choice: Random
}

/** The load is constant before the first fault, and after the last one. */
const CALM_SECONDS = 6
/** After the end of a fault, so that its effects belong to it. The goal for `otp` is 10 s. */
const BETWEEN_SECONDS = { least: 13, most: 18 } as const
const LASTS_SECONDS = { least: 4, most: 15 } as const

const within = (random: Random, { least, most }: { readonly least: number; readonly most: number }): number =>
  least + random.below(1000 * (most - least)) / 1000

/** The share of their times that faults and lifetimes have in a run of so many seconds. */
export const shortening = (seconds: number): number => Math.min(1, seconds / 60)

/**
 * Faults come one after the other. Each of the given faults comes before one comes again. Short runs
 * have shorter faults.
 */
export const planFaults = (
  seed: number,
  seconds: number,
  names: ReadonlyArray<FaultName>,
): ReadonlyArray<PlannedFault> => {
  const random = seededRandom(seed)
  const scale = shortening(seconds)
  const planned: Array<PlannedFault> = []
  let left: Array<FaultName> = []
  let at = CALM_SECONDS * scale
  const past = new Set<FaultName>()
  for (;;) {
    if (left.length === 0) {
      left = [...random.shuffled(names)].filter((name) => !(ONCE.has(name) && past.has(name)))
    }
    const name = left.shift()
    if (name === undefined) return planned
    const lasts = within(random, LASTS_SECONDS) * scale
    if (at + lasts + CALM_SECONDS * scale > seconds) return planned
    past.add(name)
    planned.push({ name, at, lasts, choice: seededRandom(random.below(0xffff_ffff)) })
    at += lasts + within(random, BETWEEN_SECONDS) * scale
  }
}
