/**
 * A list as a table. Of a long list only the visible rows are in the page. A table that is wider than its
 * place gets smaller, and then shows each row as a card, so that no column is cut off.
 */
import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Pages } from '../api/resource.ts'
import { strings } from '../strings.ts'
import { Empty, Failed, Loading, Time } from './basics.tsx'
import { visibleRange } from './visible-range.ts'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ComponentChildren
  /** Numbers stand at the right. */
  readonly numeric?: boolean
  /** Long texts, such as an address: the lines break anywhere. */
  readonly wide?: boolean
}

const classOf = ({ numeric, wide }: Pick<Column<never>, 'numeric' | 'wide'>): string =>
  [numeric === true ? 'numeric' : '', wide === true ? 'wide' : ''].join(' ').trim()

interface TableProps<Row> {
  /** What the table contains, for screen readers. */
  readonly label: string
  readonly rows: ReadonlyArray<Row>
  readonly columns: ReadonlyArray<Column<Row>>
  readonly rowKey: (row: Row) => string
  readonly hasMore?: boolean
  /** Rows before `rows` that are not in memory any more. Default 0. */
  readonly dropped?: number
}

/** Shorter tables are rendered whole, and their rows may have several lines. */
const WINDOWED_FROM = 300
/** The next page loads so far before its place becomes visible, so that scrolling seldom waits. */
const LOADED_AHEAD_PX = 1500
/** Grey lines before the first rows. */
const FIRST_LINES = 8
/** Before the first measurement. */
const ASSUMED_ROW_PX = 36

/** How the rows of a table stand, from the widest to the narrowest. `stacked`: each row is a card. */
const DENSITIES = ['', 'compact', 'stacked'] as const
type Density = (typeof DENSITIES)[number]

/** The widest density with which the table fits into the box. */
const useDensity = (box: RefObject<HTMLDivElement | null>): Density => {
  const [density, setDensity] = useState(0)
  /** Pixels that the columns need side by side, for each density that was too wide. */
  const needed = useRef<Array<number>>([])
  const fit = (): void => {
    const element = box.current
    const table = element?.querySelector('table')
    if (element === null || table === null || table === undefined) return
    if (density < DENSITIES.length - 1 && table.offsetWidth > element.clientWidth) {
      needed.current[density] = table.offsetWidth
      setDensity(density + 1)
    } else if (density > 0 && element.clientWidth >= (needed.current[density - 1] ?? 0)) {
      setDensity(density - 1)
    }
  }
  // Each time: other rows need another width.
  useLayoutEffect(fit)
  useEffect(() => {
    if (box.current === null) return
    const observer = new ResizeObserver(fit)
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [density])
  return DENSITIES[density] ?? 'stacked'
}

export const Table = <Row,>({
  columns,
  dropped = 0,
  hasMore = false,
  label,
  rowKey,
  rows,
}: TableProps<Row>) => {
  const box = useRef<HTMLDivElement>(null)
  const body = useRef<HTMLTableSectionElement>(null)
  const density = useDensity(box)
  const rowHeight = useRef(ASSUMED_ROW_PX)
  const [range, setRange] = useState({ from: 0, until: WINDOWED_FROM })
  const isWindowed = rows.length >= WINDOWED_FROM

  const measure = (): void => {
    const element = body.current
    if (element === null || !isWindowed) return
    const row = element.querySelector<HTMLTableRowElement>('tr[aria-rowindex]')
    if (row !== null && row.offsetHeight > 0) rowHeight.current = row.offsetHeight
    const next = visibleRange({
      rows: rows.length,
      rowHeight: rowHeight.current,
      top: element.getBoundingClientRect().top,
      viewHeight: window.innerHeight,
    })
    setRange((last) => (last.from === next.from && last.until === next.until ? last : next))
  }
  const droppedBefore = useRef(dropped)
  useLayoutEffect(() => {
    // The rows that the viewer sees stay where they are.
    if (dropped > droppedBefore.current) {
      window.scrollBy(0, (droppedBefore.current - dropped) * rowHeight.current)
    }
    droppedBefore.current = dropped
    measure()
  }, [rows.length, dropped])
  useEffect(() => {
    if (!isWindowed) return
    window.addEventListener('scroll', measure, { passive: true })
    window.addEventListener('resize', measure)
    return () => {
      window.removeEventListener('scroll', measure)
      window.removeEventListener('resize', measure)
    }
  }, [rows.length, isWindowed])

  const from = isWindowed ? Math.min(range.from, rows.length) : 0
  const until = isWindowed ? Math.min(range.until, rows.length) : rows.length
  const space = (count: number) =>
    count > 0 ? (
      <tr aria-hidden="true" class="space">
        <td colSpan={columns.length} style={{ height: `${count * rowHeight.current}px` }} />
      </tr>
    ) : null
  return (
    <div class="table" role="group" aria-label={label} ref={box}>
      {/* The style of cards takes the roles of a table from its elements. */}
      <table
        role="table"
        class={[isWindowed ? 'windowed' : '', density].join(' ').trim()}
        aria-rowcount={hasMore ? -1 : dropped + rows.length + 1}
      >
        <thead role="rowgroup">
          <tr role="row" aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.title} role="columnheader" scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" ref={body}>
          {space(from)}
          {rows.slice(from, until).map((row, i) => (
            <tr key={rowKey(row)} role="row" aria-rowindex={dropped + from + i + 2}>
              {columns.map((column) => (
                <td key={column.title} role="cell" class={classOf(column)} data-label={column.title}>
                  <div class="value">{column.cell(row)}</div>
                </td>
              ))}
            </tr>
          ))}
          {space(rows.length - until)}
        </tbody>
      </table>
    </div>
  )
}

/** The numbers of a chart, for those who want them exactly or do not see the chart. */
export const ChartNumbers = <Row,>(table: TableProps<Row>) => (
  <details>
    <summary>{strings.charts.numbers}</summary>
    <Table {...table} />
  </details>
)

interface PagedTableProps<Row> extends Omit<TableProps<Row>, 'rows' | 'hasMore' | 'dropped'> {
  readonly pages: Pages<Row>
  /** Actions on the list as a whole. */
  readonly tools?: ComponentChildren
  /** Shown if the list is empty: how to get something to see. */
  readonly empty: ComponentChildren
}

/**
 * What can be done with a list as a whole. `csv`: the address of its file. The browser shows the progress of a download,
 * and can end it.
 */
export const ListTools = ({
  children,
  csv,
  label,
}: {
  readonly csv: string
  readonly label: string
  readonly children?: ComponentChildren
}) => (
  <div class="list-tools">
    {children}
    <a href={csv} download="" aria-label={`${strings.csv}: ${label}`}>
      {strings.csv}
    </a>
  </div>
)

/** The pages of a list. The next page loads when its end becomes visible, or with the button. */
export const PagedTable = <Row,>({ empty, pages, tools, ...table }: PagedTableProps<Row>) => {
  const end = useRef<HTMLDivElement>(null)
  const { csv, dropped, failure, hasMore, loadMore, loading, reload, rows, searchedUntil } = pages
  useEffect(() => {
    const element = end.current
    // A page without rows does not continue by itself: the search could read everything.
    if (element === null || !hasMore || loading || failure !== null || searchedUntil !== null) return
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) loadMore()
      },
      { rootMargin: `${LOADED_AHEAD_PX}px` },
    )
    observer.observe(element)
    return () => observer.disconnect()
  }, [rows.length, dropped, hasMore, loading, failure])
  return (
    <>
      {dropped > 0 ? (
        <p class="muted">
          {strings.droppedRows(dropped)}{' '}
          <button
            type="button"
            onClick={() => {
              window.scrollTo(0, 0)
              reload()
            }}
          >
            {strings.beginAgain}
          </button>
        </p>
      ) : null}
      {rows.length > 0 ? (
        <>
          <ListTools csv={csv} label={table.label}>
            {tools}
          </ListTools>
          <Table {...table} rows={rows} dropped={dropped} hasMore={hasMore} />
        </>
      ) : null}
      {rows.length === 0 && !hasMore && !loading && failure === null ? <Empty>{empty}</Empty> : null}
      {loading ? <Loading lines={rows.length === 0 ? FIRST_LINES : 1} /> : null}
      {failure === null ? null : <Failed failure={failure} retry={loadMore} />}
      <div ref={end} class="list-end">
        {hasMore && !loading && failure === null ? (
          <>
            <button type="button" onClick={loadMore}>
              {searchedUntil === null ? strings.more : strings.searchOn}
            </button>{' '}
            {searchedUntil === null ? null : (
              <span class="muted">
                {strings.searchedUntil} <Time at={searchedUntil} />
              </span>
            )}
          </>
        ) : null}
        {!hasMore && !loading && failure === null && rows.length > 0 ? (
          <span class="muted">{strings.endOfList(dropped + rows.length)}</span>
        ) : null}
      </div>
    </>
  )
}
