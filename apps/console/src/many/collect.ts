/** The dry run of an action on many items: reads the list with its filters, and counts what the action takes. */

/** Items of one run: more take the browser more than two minutes. */
export const MOST_ITEMS = 1000
/** Rows of one read. The API gives no more. */
const PAGE_ROWS = 1000
/** Reads of a list, some of whose rows are no items of their own: 20,000 rows. */
const MOST_READS = 20

interface Page<Row> {
  readonly data: ReadonlyArray<Row>
  readonly next_cursor?: string | null
}

export interface Collected {
  /** Different ids, the oldest first. */
  readonly ids: ReadonlyArray<string>
  /** There are more: these are the newest. */
  readonly isCut: boolean
}

/**
 * `path`: a list of the API with its filters. `idOf`: the id of the item of a row; `null`: the action does not take the row.
 * The list is the newest first.
 */
export const collect = async <Row>(
  path: string,
  idOf: (row: Row) => string | null,
  read: (path: string) => Promise<Page<Row>>,
): Promise<Collected> => {
  const ids = new Set<string>()
  const [pathname = '', query] = path.split('?')
  const parameters = new URLSearchParams(query)
  parameters.set('limit', String(PAGE_ROWS))
  for (let reads = 1; ; reads++) {
    const { data, next_cursor: cursor } = await read(`${pathname}?${parameters.toString()}`)
    for (const row of data) {
      const id = idOf(row)
      if (id !== null) ids.add(id)
    }
    // A list without pages that is full may have more.
    const hasMore = cursor === undefined ? data.length >= PAGE_ROWS : cursor !== null
    const isEnd = !hasMore || cursor === undefined || ids.size > MOST_ITEMS || reads >= MOST_READS
    if (isEnd) {
      const newest = [...ids].slice(0, MOST_ITEMS)
      return { ids: newest.toReversed(), isCut: hasMore || ids.size > newest.length }
    }
    parameters.set('cursor', cursor ?? '')
  }
}
