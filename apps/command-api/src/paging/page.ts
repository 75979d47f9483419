/** Pages of resources. Source: contract, General (list envelope). */

/** A page of resources as the API returns them. */
export interface ResourcePage<T extends { readonly id: string }> {
  readonly data: ReadonlyArray<T>
  readonly hasMore: boolean
}

/** Makes a page from the rows of a query with `LIMIT limit + 1`: the extra row shows that more follow. */
export const toResourcePage = <Row, T extends { readonly id: string }>(
  rows: ReadonlyArray<Row>,
  limit: number,
  toResource: (row: Row) => T,
): ResourcePage<T> => ({ data: rows.slice(0, limit).map(toResource), hasMore: rows.length > limit })
