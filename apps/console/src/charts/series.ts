/** Lines with gaps and their scale, and cells of a heat map. Pure. */

/** `null`: there is nothing to show at that time, and the line has a gap. */
export type Values = ReadonlyArray<number | null>

export interface Plot {
  readonly width: number
  readonly height: number
  /** The values at its bottom and its top. */
  readonly bottom: number
  readonly top: number
}

interface Point {
  readonly x: number
  readonly y: number
}

/** The parts of a line between its gaps. A part may be one point. */
export const segmentsOf = (
  values: Values,
  { bottom, height, top, width }: Plot,
): ReadonlyArray<ReadonlyArray<Point>> => {
  const step = values.length > 1 ? width / (values.length - 1) : 0
  const segments: Array<Array<Point>> = []
  let isOpen = false
  for (const [i, value] of values.entries()) {
    if (value === null) {
      isOpen = false
      continue
    }
    const point = { x: i * step, y: height - ((value - bottom) / (top - bottom)) * height }
    if (isOpen) segments.at(-1)?.push(point)
    else segments.push([point])
    isOpen = true
  }
  return segments
}

/** The points of an SVG polyline: `x,y x,y …`. */
export const pointsText = (points: ReadonlyArray<Point>): string =>
  points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')

/** The bottom of a chart of shares: the tenth below the smallest one, and at least a tenth below its top, 1. */
export const floorOfShares = (lines: ReadonlyArray<Values>): number => {
  const least = Math.min(0.9, ...lines.flatMap((line) => line.flatMap((value) => value ?? [])))
  return Math.floor(least * 10) / 10
}

/** The parts with a label on the horizontal axis: at most `most`, at even distances, and the last one. */
export const tickParts = (parts: number, most: number): ReadonlyArray<number> => {
  const every = Math.max(1, Math.ceil(parts / Math.max(1, most)))
  return Array.from({ length: parts }, (_, i) => i).filter((i) => (parts - 1 - i) % every === 0)
}

/** The messages of a number range in an hour or a day. */
export interface HeatCell {
  readonly range: string
  readonly at: string
  readonly accepted: number
  readonly delivered: number
  /** With a final status. */
  readonly final: number
}

/** From 0 to 1; `null`: no message has a final status. */
export const rateOf = ({ delivered, final }: HeatCell): number | null =>
  final === 0 ? null : delivered / final

/** How good a delivery rate is; `none`: no message has a final status. */
export const levelOf = (rate: number | null): 'good' | 'fair' | 'poor' | 'bad' | 'none' => {
  if (rate === null) return 'none'
  if (rate >= 0.95) return 'good'
  if (rate >= 0.8) return 'fair'
  return rate >= 0.5 ? 'poor' : 'bad'
}

/** The ranges with the most messages that were not delivered first, then those with the most messages. */
export const worstRanges = (cells: ReadonlyArray<HeatCell>, most: number): ReadonlyArray<string> => {
  const sums = new Map<string, { failed: number; accepted: number }>()
  for (const { accepted, delivered, final, range } of cells) {
    const sum = sums.get(range) ?? { failed: 0, accepted: 0 }
    sums.set(range, { failed: sum.failed + final - delivered, accepted: sum.accepted + accepted })
  }
  return [...sums]
    .toSorted(
      ([a, one], [b, other]) =>
        other.failed - one.failed || other.accepted - one.accepted || (a < b ? -1 : 1),
    )
    .slice(0, most)
    .map(([range]) => range)
}
