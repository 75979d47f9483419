/** The last check of a run in the world: nothing happens any more. */
import type { Simulation } from './simulation.ts'

/** Requests of the time with faults may come this late. */
const LATE_MS = 15_000
/** Nothing more may happen in this time. */
const IDLE_MS = 15_000

/** What a part of the hub does. */
export interface Activity {
  /** The name of the violation. */
  readonly violation: string
  /** What is counted. */
  readonly what: string
  readonly count: () => number
}

/** Runs the world for a while. Call it when all is done, for all parts at once. */
export const checkIdle = ({ violations, world }: Simulation, activities: ReadonlyArray<Activity>): void => {
  world.runFor(LATE_MS)
  const before = activities.map(({ count }) => count())
  world.runFor(IDLE_MS)
  for (const [i, { count, violation, what }] of activities.entries()) {
    const more = count() - before[i]!
    if (more > 0) violations.add(violation, `${more} ${what}`)
  }
}
