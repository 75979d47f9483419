/** What identifies a run of the simulation, and what comes out of it. */
import type { FaultKind, FaultPlan } from './faults.ts'
import type { TimelineEntry } from './world.ts'

/** Which run it is. The same plan always gives the same run. */
export interface Plan {
  readonly seed: number
  /** The size of the workload: at most this many messages or events. */
  readonly size: number
  readonly faults: FaultPlan
}

/** The whole run of a seed. `kinds`: see `FaultPlan`. */
export const planOf = (seed: number, kinds: ReadonlySet<FaultKind> | null = null): Plan => ({
  seed,
  size: Number.POSITIVE_INFINITY,
  faults: { limit: Number.POSITIVE_INFINITY, without: new Set(), kinds },
})

export interface RunResult {
  readonly plan: Plan
  readonly violations: ReadonlyArray<string>
  /** The faults that occurred, by number. */
  readonly faults: ReadonlyMap<number, string>
  /** The number of messages or events. */
  readonly size: number
  readonly tasks: number
  readonly virtualMs: number
  readonly digest: number
  readonly timeline: ReadonlyArray<TimelineEntry>
}

export interface RunOptions {
  readonly keepTimeline?: boolean
}
