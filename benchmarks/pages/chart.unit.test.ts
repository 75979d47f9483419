import { describe, expect, it } from 'vitest'
import { type BarChart, type Chart, toBarsSvg, toSvg } from './chart.ts'

const chart: Chart = {
  title: 'Goodput',
  unit: 'messages per second',
  series: [
    {
      name: 'otp',
      points: [
        [0, 10],
        [1, 20],
        [2, 15],
      ],
    },
    {
      name: 'service',
      points: [
        [0, 5],
        [2, 7],
      ],
    },
  ],
  marks: [[1, 'twice the capacity']],
}

/** The texts that a reader of the chart sees. */
const textsOf = (svg: string): ReadonlyArray<string> =>
  [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/gu)].map(([, text]) => text!)

describe('toSvg', () => {
  it('draws title, unit, the name of each series and the marks', () => {
    const svg = toSvg(chart)
    expect(svg).toMatch(/^<svg /u)
    expect(textsOf(svg)).toEqual(
      expect.arrayContaining(['Goodput', 'messages per second', 'otp', 'service', 'twice the capacity']),
    )
  })

  it('draws one line for each series, through all of its points', () => {
    const lines = [...toSvg(chart).matchAll(/<path d="([^"]*)"[^>]*stroke-width="1\.5"/gu)]
    expect(lines.map(([, path]) => path!.split('L').length)).toEqual([3, 2])
  })
})

const bars: BarChart = {
  title: 'Cost',
  unit: 'µs per message',
  bars: ['idle', 'at a steady pace, with everything that the hub can do', 'at the limit of the machine'],
  parts: [
    { name: 'projector', values: [0, 1000, 100] },
    { name: 'Kafka', values: [7, 500, 50] },
  ],
}

describe('toBarsSvg', () => {
  it('draws title, unit, the names of bars and parts, and the whole of each bar', () => {
    const texts = textsOf(toBarsSvg(bars))
    const names = ['Cost', 'µs per message', 'projector', 'Kafka', ...bars.bars]
    expect(texts).toEqual(expect.arrayContaining([...names, '7', '1,500', '150']))
  })
})
