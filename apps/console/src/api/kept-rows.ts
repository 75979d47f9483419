/** The rows of a long list that stay in memory. */

/**
 * A browser would need a gigabyte for a million rows, and shows no page of their height. People who scroll
 * back go back by some screens, and find far rows by a filter.
 */
export const MOST_ROWS = 20_000
/** What stays when there are more. The half: so rows are seldom dropped. */
const KEPT_ROWS = 10_000

export interface KeptRows<Row> {
  readonly rows: ReadonlyArray<Row>
  /** Rows before them, which are not in memory any more. */
  readonly dropped: number
}

/** Appends a page. The first rows are dropped if there are too many. */
export const withPage = <Row>({ dropped, rows }: KeptRows<Row>, page: ReadonlyArray<Row>): KeptRows<Row> => {
  const all = [...rows, ...page]
  if (all.length <= MOST_ROWS) return { rows: all, dropped }
  return { rows: all.slice(-KEPT_ROWS), dropped: dropped + all.length - KEPT_ROWS }
}
