import { useRef } from 'preact/hooks'
import { durationText, utcText } from '../format/time.ts'
import { strings } from '../strings.ts'
import { PERFORMERS, placeSteps, type Step } from './timeline.ts'
import { useWidth } from './width.ts'

/** Pixels. */
const ROW = 34
const BELOW = 42
const RADIUS = 6
/** A character of a label, and the space beside the longest one. */
const CHARACTER = 7
const BESIDE = 12

interface ChartStep extends Step {
  readonly title: string
}

/** Who performed each step and when. The same steps are in the list below the chart. */
export const TimelineChart = ({ steps }: { readonly steps: ReadonlyArray<ChartStep> }) => {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const placed = placeSteps(steps)
  const rows = PERFORMERS.filter((performer) => steps.some(({ by }) => by === performer))
  const height = rows.length * ROW
  const left = Math.max(0, ...rows.map((name) => strings.performers[name].length)) * CHARACTER + BESIDE
  const x = (share: number): number => left + RADIUS * 2 + share * (width - left - RADIUS * 4)
  const y = (row: number): number => row * ROW + ROW / 2
  const points = placed.map((step) => ({ x: x(step.x), y: y(rows.indexOf(step.performer)) }))
  const total = placed.at(-1)?.elapsed ?? 0
  return (
    <figure class="chart">
      <div ref={box}>
        <svg
          width={width}
          height={height + BELOW}
          role="img"
          aria-label={strings.charts.timeline(steps.length, durationText(total))}
        >
          {rows.map((performer, row) => (
            <g key={performer}>
              <line class="grid" x1={left} y1={y(row)} x2={width} y2={y(row)} />
              <text class="tick" x={left - 8} y={y(row) + 4} text-anchor="end">
                {strings.performers[performer]}
              </text>
            </g>
          ))}
          <line class="axis" x1={left} y1={height} x2={width} y2={height} />
          <polyline class="line path" points={points.map((point) => `${point.x},${point.y}`).join(' ')} />
          {points.map((point, i) => (
            <circle
              key={`${i} ${point.x}`}
              class={`step ${placed[i]?.performer ?? ''}`}
              cx={point.x}
              cy={point.y}
              r={RADIUS}
            >
              <title>
                {`${steps[i]?.title ?? ''}, +${durationText(placed[i]?.elapsed ?? 0)} (${utcText(steps[i]?.at ?? '')})`}
              </title>
            </circle>
          ))}
          <text class="tick" x={x(0)} y={height + 16}>
            {durationText(0)}
          </text>
          <text class="tick" x={x(1)} y={height + 16} text-anchor="end">
            {durationText(total)}
          </text>
          <text class="tick" x={width} y={height + 34} text-anchor="end">
            {strings.charts.sinceFirst}
          </text>
        </svg>
      </div>
      <figcaption class="muted">{strings.charts.logarithmic}</figcaption>
    </figure>
  )
}
