import { countText } from '../format/number.ts'
import { localMinute } from '../format/time.ts'
import { strings } from '../strings.ts'
import { type Minute, SERIES, trafficLines } from './traffic.ts'

const WIDTH = 600
const HEIGHT = 120

/** Messages per minute of one class. The numbers are also in a table, for screen readers. */
export const TrafficChart = ({
  label,
  minutes,
}: {
  readonly label: string
  readonly minutes: ReadonlyArray<Minute>
}) => {
  const { lines, top } = trafficLines(minutes, { width: WIDTH, height: HEIGHT })
  const first = minutes[0]?.at
  const last = minutes.at(-1)?.at
  return (
    <figure class="chart">
      <svg
        viewBox={`-40 -8 ${WIDTH + 50} ${HEIGHT + 28}`}
        role="img"
        aria-label={strings.charts.traffic(label)}
      >
        <line class="axis" x1={0} y1={HEIGHT} x2={WIDTH} y2={HEIGHT} />
        <line class="grid" x1={0} y1={0} x2={WIDTH} y2={0} />
        <text class="tick" x={-6} y={4} text-anchor="end">
          {countText(top)}
        </text>
        <text class="tick" x={-6} y={HEIGHT + 4} text-anchor="end">
          0
        </text>
        {first === undefined || last === undefined ? null : (
          <>
            <text class="tick" x={0} y={HEIGHT + 16}>
              {localMinute(first)}
            </text>
            <text class="tick" x={WIDTH} y={HEIGHT + 16} text-anchor="end">
              {localMinute(last)}
            </text>
          </>
        )}
        {SERIES.map((series) => (
          <polyline key={series} class={`line ${series}`} points={lines[series]} />
        ))}
      </svg>
      <ul class="legend">
        {SERIES.map((series) => (
          <li key={series}>
            <span class={`key ${series}`} aria-hidden="true" />
            {strings.charts[series]} {countText(minutes.reduce((sum, minute) => sum + minute[series], 0))}
          </li>
        ))}
      </ul>
      <details>
        <summary>{strings.charts.numbers}</summary>
        <div class="table" role="group" aria-label={strings.charts.traffic(label)} tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">{strings.charts.minute}</th>
                {SERIES.map((series) => (
                  <th key={series} scope="col" class="numeric">
                    {strings.charts[series]}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {minutes.toReversed().map((minute) => (
                <tr key={minute.at}>
                  <th scope="row">{localMinute(minute.at)}</th>
                  {SERIES.map((series) => (
                    <td key={series} class="numeric">
                      {countText(minute[series])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}
