/** Draws a line chart of values over time as SVG. */
import * as echarts from 'echarts'

export interface ChartSeries {
  readonly name: string
  /** Seconds since the start, and a value in the unit of the chart. In order of time. */
  readonly points: ReadonlyArray<readonly [seconds: number, value: number]>
}

export interface Chart {
  readonly title: string
  /** The unit of the values, such as `messages per second`. */
  readonly unit: string
  readonly series: ReadonlyArray<ChartSeries>
  /** Times at which the load changes, in seconds, with a label. Drawn as vertical lines. */
  readonly marks?: ReadonlyArray<readonly [seconds: number, label: string]>
}

/** Pixels. Wide enough for a run of some minutes with one value for each second. */
const SIZE = { width: 960, height: 360 } as const

/** Returns the chart as an SVG document. */
export const toSvg = ({ marks = [], series, title, unit }: Chart): string => {
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...SIZE })
  chart.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    title: { text: title, left: 'center', top: 8, textStyle: { fontSize: 15 } },
    legend: { bottom: 4 },
    grid: { left: 72, right: 24, top: 56, bottom: 72 },
    xAxis: { type: 'value', name: 'seconds', nameLocation: 'middle', nameGap: 26, min: 0, max: 'dataMax' },
    yAxis: { type: 'value', name: unit, min: 0 },
    series: series.map(({ name, points }, i) => ({
      type: 'line',
      name,
      data: points.map(([seconds, value]) => [seconds, value]),
      showSymbol: false,
      lineStyle: { width: 1.5 },
      ...(i === 0 && marks.length > 0
        ? {
            markLine: {
              silent: true,
              symbol: 'none',
              label: { formatter: '{b}', position: 'end' },
              lineStyle: { type: 'dashed', color: '#999999' },
              data: marks.map(([xAxis, label]) => ({ xAxis, name: label })),
            },
          }
        : undefined),
    })),
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return svg
}
