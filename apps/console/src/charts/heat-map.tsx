import { useRef } from 'preact/hooks'
import { percentText } from '../format/number.ts'
import { strings } from '../strings.ts'
import { type HeatCell, levelOf, rateOf, worstRanges } from './series.ts'
import { useWidth } from './width.ts'

/** Pixels of a cell, which is wide enough for `100` and for a finger, and of the name of a range. */
const CELL = 34
const NAME = 60

/** Ranges of the map. The table below it has all. */
const MOST_RANGES = 20

interface HeatMapProps {
  readonly label: string
  readonly cells: ReadonlyArray<HeatCell>
  /** The hours or days in order, with their short and their whole name. */
  readonly parts: ReadonlyArray<{ readonly at: string; readonly short: string; readonly long: string }>
  /** The address of the messages of a cell. */
  readonly hrefOf: (cell: HeatCell) => string
}

/** The share in percent without its sign: `97`. Only all of the messages are `100`. */
const shortShare = (rate: number): string => String(Math.floor(rate * 100))

/**
 * The delivery rate of each range in each hour or day. A cell is a link to its messages. On a small screen it
 * has the newest parts that fit.
 */
export const HeatMap = ({ cells, hrefOf, label, parts }: HeatMapProps) => {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const shown = parts.slice(-Math.max(1, Math.floor((width - NAME) / CELL)))
  const found = new Map(cells.map((cell) => [`${cell.range} ${cell.at}`, cell]))
  return (
    <div ref={box}>
      <table class="heat" aria-label={label}>
        <thead>
          <tr>
            <th scope="col">{strings.insights.range}</th>
            {shown.map(({ at, long, short }) => (
              <th key={at} scope="col" title={long}>
                {short}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {worstRanges(cells, MOST_RANGES).map((range) => (
            <tr key={range}>
              <th scope="row">{range}</th>
              {shown.map(({ at, long }) => {
                const cell = found.get(`${range} ${at}`)
                if (cell === undefined) return <td key={at} />
                const rate = rateOf(cell)
                const text = strings.insights.cell(
                  range,
                  long,
                  rate === null ? null : percentText(rate),
                  cell.accepted,
                )
                return (
                  <td key={at}>
                    <a class={`cell ${levelOf(rate)}`} href={hrefOf(cell)} title={text} aria-label={text}>
                      {rate === null ? '…' : shortShare(rate)}
                    </a>
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
