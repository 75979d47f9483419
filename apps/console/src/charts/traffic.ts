/** The lines and axes of the chart of messages per minute. Pure. */
import { type Plot, pointsText, segmentsOf } from './series.ts'

export const SERIES = ['sent', 'delivered', 'failed'] as const
export type Series = (typeof SERIES)[number]

export interface Minute {
  readonly at: string
  readonly sent: number
  readonly delivered: number
  readonly failed: number
}

/** The smallest 1, 2 or 5 times a power of ten that is not below the value: a round end of the axis. */
export const roundUp = (value: number): number => {
  if (value <= 1) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= value) ?? 10
  return factor * power
}

/**
 * The value at the top of the chart. It follows the shown series, so that small ones become visible when large ones
 * are hidden.
 */
export const topOf = (minutes: ReadonlyArray<Minute>, shown: ReadonlyArray<Series>): number =>
  roundUp(Math.max(0, ...minutes.flatMap((minute) => shown.map((series) => minute[series]))))

/** The points of an SVG polyline (`x,y x,y …`) for a series. */
export const lineOf = (
  minutes: ReadonlyArray<Minute>,
  series: Series,
  plot: Omit<Plot, 'bottom'>,
): string => {
  const values = minutes.map((minute) => minute[series])
  return segmentsOf(values, { ...plot, bottom: 0 })
    .map(pointsText)
    .join(' ')
}

/** The values of the vertical axis: its ends, and the middle if that is whole. */
export const valueTicks = (top: number): ReadonlyArray<number> =>
  top % 2 === 0 ? [0, top / 2, top] : [0, top]

const TICK_EVERY_MINUTES = 15

/** The minutes with a label on the horizontal axis: each quarter of an hour. All time zones have whole quarters. */
export const timeTicks = (minutes: ReadonlyArray<Minute>): ReadonlyArray<number> =>
  minutes.flatMap(({ at }, i) => (new Date(at).getUTCMinutes() % TICK_EVERY_MINUTES === 0 ? [i] : []))

/** The minute at a horizontal position in the plot. */
export const minuteAt = (x: number, width: number, minutes: number): number =>
  Math.min(minutes - 1, Math.max(0, Math.round((x / width) * (minutes - 1))))
