import { durationText, utcText } from '../format/time.ts'
import { strings } from '../strings.ts'
import { PERFORMERS, placeSteps, type Step } from './timeline.ts'

const WIDTH = 860
const ROW = 34
const LEFT = 96

interface ChartStep extends Step {
  readonly title: string
}

/** Who performed each step and when. The same steps are in the list below the chart. */
export const TimelineChart = ({ steps }: { readonly steps: ReadonlyArray<ChartStep> }) => {
  const placed = placeSteps(steps)
  const rows = PERFORMERS.filter((performer) => steps.some(({ by }) => by === performer))
  const height = rows.length * ROW
  const x = (share: number): number => LEFT + 12 + share * (WIDTH - LEFT - 40)
  const y = (row: number): number => row * ROW + ROW / 2
  const points = placed.map((step) => ({ x: x(step.x), y: y(rows.indexOf(step.performer)) }))
  const total = placed.at(-1)?.elapsed ?? 0
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${WIDTH} ${height + 22}`}
        role="img"
        aria-label={strings.charts.timeline(steps.length, durationText(total))}
      >
        {rows.map((performer, row) => (
          <g key={performer}>
            <line class="grid" x1={LEFT} y1={y(row)} x2={WIDTH} y2={y(row)} />
            <text class="tick" x={LEFT - 8} y={y(row) + 4} text-anchor="end">
              {strings.performers[performer]}
            </text>
          </g>
        ))}
        <polyline class="line path" points={points.map((point) => `${point.x},${point.y}`).join(' ')} />
        {points.map((point, i) => (
          <circle
            key={`${i} ${point.x}`}
            class={`step ${placed[i]?.performer ?? ''}`}
            cx={point.x}
            cy={point.y}
            r={6}
          >
            <title>
              {`${steps[i]?.title ?? ''}, +${durationText(placed[i]?.elapsed ?? 0)} (${utcText(steps[i]?.at ?? '')})`}
            </title>
          </circle>
        ))}
        <text class="tick" x={x(0)} y={height + 16}>
          0
        </text>
        <text class="tick" x={x(1)} y={height + 16} text-anchor="end">
          {durationText(total)}
        </text>
      </svg>
      <figcaption class="muted">{strings.charts.logarithmic}</figcaption>
    </figure>
  )
}
