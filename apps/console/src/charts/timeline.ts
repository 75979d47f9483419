/**
 * Where the steps of a message stand in the chart. Pure. A submit takes milliseconds and a delivery
 * report may take hours, so the distance between two steps grows with the logarithm of their time.
 */

/** Who performs steps, in the order of a message's way: apps of the hub, and the SMS operator. */
export const PERFORMERS = ['command-api', 'dispatcher', 'operator', 'projector', 'webhook-fanout'] as const
export type Performer = (typeof PERFORMERS)[number]

/** `by` of a timeline entry: an app, or `operator` and its name. The hub may have new apps. */
export const performerOf = (by: string): Performer =>
  PERFORMERS.find((performer) => by === performer || by.startsWith(`${performer} `)) ?? 'command-api'

export interface Step {
  readonly at: string
  readonly by: Performer
}

export interface PlacedStep {
  /** From 0 (the first step) to 1 (the last step). */
  readonly x: number
  readonly performer: Performer
  /** Milliseconds since the first step. */
  readonly elapsed: number
  /** Milliseconds since the step before. */
  readonly gap: number
}

/** Even steps of the same millisecond stay apart. */
const SMALLEST_DISTANCE = 0.6

const distanceOf = (gap: number): number => SMALLEST_DISTANCE + Math.log10(1 + gap)

/** Places steps that are in the order of time. */
export const placeSteps = (steps: ReadonlyArray<Step>): ReadonlyArray<PlacedStep> => {
  const times = steps.map(({ at }) => new Date(at).getTime())
  const first = times[0] ?? 0
  let position = 0
  const placed = steps.map(({ by }, i) => {
    const time = times[i] ?? first
    const gap = i === 0 ? 0 : Math.max(0, time - (times[i - 1] ?? time))
    position += i === 0 ? 0 : distanceOf(gap)
    return { x: position, performer: by, elapsed: Math.max(0, time - first), gap }
  })
  return placed.map((step) => ({ ...step, x: position === 0 ? 0.5 : step.x / position }))
}
