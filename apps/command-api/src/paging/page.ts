/** Pages of resources. Source: contract, General (list envelope). */

/** A page of resources as they are served. */
export interface Found<T extends { readonly id: string }> {
  readonly data: ReadonlyArray<T>
  readonly hasMore: boolean
}

/** The page of a query that asked for one row more than `limit`, which tells whether there is more. */
export const foundIn = <Row, T extends { readonly id: string }>(
  rows: ReadonlyArray<Row>,
  limit: number,
  show: (row: Row) => T,
): Found<T> => ({ data: rows.slice(0, limit).map(show), hasMore: rows.length > limit })
