/** Draws line charts of values over time and stacked bars as SVG. */
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

/** Stacked bars: each bar is the sum of its parts. */
export interface BarChart {
  readonly title: string
  /** The unit of the values, such as `µs per message`. */
  readonly unit: string
  readonly bars: ReadonlyArray<string>
  /** A part of each bar, from the bottom to the top. */
  readonly parts: ReadonlyArray<{
    readonly name: string
    /** One for each bar. */
    readonly values: ReadonlyArray<number>
  }>
}

/** Pixels. Wide enough for a run of some minutes with one value for each second. */
const SIZE = { width: 960, height: 360 } as const

const render = (title: string, option: echarts.EChartsCoreOption): string => {
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...SIZE })
  chart.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    title: { text: title, left: 'center', top: 8, textStyle: { fontSize: 15 } },
    legend: { bottom: 4 },
    grid: { left: 72, right: 24, top: 56, bottom: 72 },
    ...option,
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return svg
}

/** Returns the chart as an SVG document. */
export const toSvg = ({ marks = [], series, title, unit }: Chart): string =>
  render(title, {
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

/** Returns the stacked bars as an SVG document. The whole of a bar is written above it. */
export const toBarsSvg = ({ bars, parts, title, unit }: BarChart): string =>
  render(title, {
    // Without an interval of 0, long names would be left out.
    xAxis: { type: 'category', data: bars, axisLabel: { interval: 0 } },
    yAxis: { type: 'value', name: unit, min: 0 },
    series: parts.map(({ name, values }, i) => ({
      type: 'bar',
      name,
      stack: 'all',
      barWidth: '45%',
      data: values,
      ...(i === parts.length - 1
        ? {
            label: {
              show: true,
              position: 'top',
              formatter: ({ dataIndex }: { readonly dataIndex: number }) =>
                parts
                  .reduce((sum, part) => sum + (part.values[dataIndex] ?? 0), 0)
                  .toLocaleString('en-GB', { maximumFractionDigits: 0 }),
            },
          }
        : undefined),
    })),
  })
