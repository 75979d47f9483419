import { useRef, useState } from 'preact/hooks'
import { ChartNumbers, type Column } from '../components/table.tsx'
import { countText } from '../format/number.ts'
import { localMinute } from '../format/time.ts'
import { strings } from '../strings.ts'
import {
  lineOf,
  type Minute,
  minuteAt,
  type Series,
  SERIES,
  timeTicks,
  topOf,
  valueTicks,
} from './traffic.ts'
import { useWidth } from './width.ts'

/** Pixels of the plot, and of the axes around it. */
const HEIGHT = 130
const ABOVE = 24
const BELOW = 22
const RIGHT = 18
/** A digit of the axis, and the space beside its number. */
const DIGIT = 7
const BESIDE = 10

const COLUMNS: ReadonlyArray<Column<Minute>> = [
  { title: strings.charts.minute, cell: ({ at }) => localMinute(at) },
  ...SERIES.map((series) => ({
    title: strings.charts[series],
    numeric: true,
    cell: (minute: Minute) => countText(minute[series]),
  })),
]

/** The keys that move the crosshair, as those of a slider. */
const STEPS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
  Home: -Infinity,
  End: Infinity,
}

const total = (minutes: ReadonlyArray<Minute>, series: Series): number =>
  minutes.reduce((sum, minute) => sum + minute[series], 0)

/** Messages per minute of one class. The crosshair, moved with the pointer or the arrow keys, shows one minute. */
export const TrafficChart = ({
  label,
  minutes,
}: {
  readonly label: string
  readonly minutes: ReadonlyArray<Minute>
}) => {
  const box = useRef<HTMLDivElement>(null)
  const boxWidth = useWidth(box)
  const [hidden, setHidden] = useState<ReadonlyArray<Series>>([])
  const [cross, setCross] = useState<number | null>(null)
  const shown = SERIES.filter((series) => !hidden.includes(series))
  const top = topOf(minutes, shown)
  const left = countText(top).length * DIGIT + BESIDE
  const width = Math.max(1, boxWidth - left - RIGHT)
  const last = minutes.length - 1
  const x = (minute: number): number => (last < 1 ? 0 : (minute / last) * width)
  const y = (value: number): number => HEIGHT - (value / top) * HEIGHT
  const at = cross === null ? undefined : minutes[cross]
  /** Of the minute under the crosshair, or of the hour. */
  const valueOf = (series: Series): number => at?.[series] ?? total(minutes, series)
  const time = at === undefined ? strings.charts.lastHour : localMinute(at.at)
  return (
    <figure class="chart">
      <ul class="legend">
        {SERIES.map((series) => (
          <li key={series}>
            <button
              type="button"
              aria-pressed={shown.includes(series)}
              onClick={() =>
                setHidden(
                  hidden.includes(series) ? hidden.filter((one) => one !== series) : [...hidden, series],
                )
              }
            >
              <span class={`key ${series}`} aria-hidden="true" />
              {strings.charts[series]} {countText(valueOf(series))}
            </button>
          </li>
        ))}
        <li class="muted">{time}</li>
      </ul>
      <div
        ref={box}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={strings.charts.traffic(label)}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, last)}
        aria-valuenow={cross ?? Math.max(0, last)}
        aria-valuetext={`${time}: ${shown.map((series) => `${strings.charts[series]} ${countText(valueOf(series))}`).join(', ')}`}
        onPointerMove={(event) =>
          setCross(
            minuteAt(
              event.clientX - event.currentTarget.getBoundingClientRect().left - left,
              width,
              minutes.length,
            ),
          )
        }
        onPointerLeave={() => setCross(null)}
        onBlur={() => setCross(null)}
        onKeyDown={(event) => {
          const step = STEPS[event.key]
          if (step === undefined) return
          event.preventDefault()
          setCross(Math.min(last, Math.max(0, (cross ?? last) + step)))
        }}
      >
        <svg width={boxWidth} height={HEIGHT + ABOVE + BELOW} aria-hidden="true">
          <text class="tick" x={0} y={12}>
            {strings.charts.perMinute}
          </text>
          <g transform={`translate(${left} ${ABOVE})`}>
            {valueTicks(top).map((value) => (
              <g key={value}>
                <line class={value === 0 ? 'axis' : 'grid'} x1={0} y1={y(value)} x2={width} y2={y(value)} />
                <text class="tick" x={-6} y={y(value) + 4} text-anchor="end">
                  {countText(value)}
                </text>
              </g>
            ))}
            {timeTicks(minutes).map((minute) => (
              <g key={minute}>
                <line class="axis" x1={x(minute)} y1={HEIGHT} x2={x(minute)} y2={HEIGHT + 4} />
                <text class="tick" x={x(minute)} y={HEIGHT + 18} text-anchor="middle">
                  {localMinute(minutes[minute]?.at ?? '')}
                </text>
              </g>
            ))}
            {shown.map((series) => (
              <polyline
                key={series}
                class={`line ${series}`}
                points={lineOf(minutes, series, { width, height: HEIGHT, top })}
              />
            ))}
            {cross === null || at === undefined ? null : (
              <>
                <line class="cross" x1={x(cross)} y1={0} x2={x(cross)} y2={HEIGHT} />
                {shown.map((series) => (
                  <circle key={series} class={`dot ${series}`} cx={x(cross)} cy={y(at[series])} r={3} />
                ))}
              </>
            )}
          </g>
        </svg>
      </div>
      <ChartNumbers
        label={strings.charts.traffic(label)}
        rows={minutes.toReversed()}
        columns={COLUMNS}
        rowKey={({ at: minute }) => minute}
      />
    </figure>
  )
}
