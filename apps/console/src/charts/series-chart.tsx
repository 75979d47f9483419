import { useRef } from 'preact/hooks'
import { pointsText, segmentsOf, tickParts, type Values } from './series.ts'
import { useWidth } from './width.ts'

/** Pixels of the plot, and of the axes around it. */
const HEIGHT = 140
const ABOVE = 10
const BELOW = 22
const LEFT = 64
const RIGHT = 28
/** A label of the horizontal axis and the space around it. */
const LABEL = 72

export interface Line {
  readonly name: string
  /** The look of the line: a class of `.chart .line`. */
  readonly look: 'now' | 'before' | 'slow'
  readonly values: Values
}

interface SeriesChartProps {
  /** What the chart shows, for screen readers. The table beside it has the same values. */
  readonly label: string
  readonly lines: ReadonlyArray<Line>
  /** The label of each part. */
  readonly parts: ReadonlyArray<string>
  readonly bottom: number
  readonly top: number
  readonly valueText: (value: number) => string
}

/** Lines over the parts of a period. */
export const SeriesChart = ({ bottom, label, lines, parts, top, valueText }: SeriesChartProps) => {
  const box = useRef<HTMLDivElement>(null)
  const boxWidth = useWidth(box)
  const width = Math.max(1, boxWidth - LEFT - RIGHT)
  const plot = { width, height: HEIGHT, bottom, top }
  const x = (part: number): number => (parts.length < 2 ? 0 : (part / (parts.length - 1)) * width)
  const ticks = [bottom, (bottom + top) / 2, top]
  return (
    <figure class="chart">
      <ul class="legend">
        {lines.map(({ look, name }) => (
          <li key={look}>
            <span class={`key ${look}`} aria-hidden="true" /> {name}
          </li>
        ))}
      </ul>
      <div ref={box}>
        <svg width={boxWidth} height={HEIGHT + ABOVE + BELOW} role="img" aria-label={label}>
          <g transform={`translate(${LEFT} ${ABOVE})`}>
            {ticks.map((value, i) => {
              const y = HEIGHT - (i / (ticks.length - 1)) * HEIGHT
              return (
                <g key={value}>
                  <line class={i === 0 ? 'axis' : 'grid'} x1={0} y1={y} x2={width} y2={y} />
                  <text class="tick" x={-6} y={y + 4} text-anchor="end">
                    {valueText(value)}
                  </text>
                </g>
              )
            })}
            {tickParts(parts.length, Math.floor(width / LABEL)).map((part) => (
              <text key={part} class="tick" x={x(part)} y={HEIGHT + 18} text-anchor="middle">
                {parts[part]}
              </text>
            ))}
            {lines.map(({ look, values }) =>
              segmentsOf(values, plot).map((points) =>
                points.length === 1 ? (
                  <circle
                    key={`${look} ${points[0]?.x}`}
                    class={`dot ${look}`}
                    cx={points[0]?.x}
                    cy={points[0]?.y}
                    r={3}
                  />
                ) : (
                  <polyline
                    key={`${look} ${points[0]?.x}`}
                    class={`line ${look}`}
                    points={pointsText(points)}
                  />
                ),
              ),
            )}
          </g>
        </svg>
      </div>
    </figure>
  )
}
