/** The lines of the chart of messages per minute. Pure. */

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

interface Size {
  readonly width: number
  readonly height: number
}

export interface TrafficLines {
  /** The value at the top of the chart. */
  readonly top: number
  /** Points of an SVG polyline for each series: `x,y x,y …`. */
  readonly lines: Readonly<Record<Series, string>>
}

export const trafficLines = (minutes: ReadonlyArray<Minute>, { height, width }: Size): TrafficLines => {
  const top = roundUp(Math.max(0, ...minutes.flatMap((minute) => SERIES.map((series) => minute[series]))))
  const step = minutes.length > 1 ? width / (minutes.length - 1) : 0
  const line = (series: Series): string =>
    minutes
      .map((minute, i) => `${(i * step).toFixed(1)},${(height - (minute[series] / top) * height).toFixed(1)}`)
      .join(' ')
  return { top, lines: { sent: line('sent'), delivered: line('delivered'), failed: line('failed') } }
}
