/** Reads resources, one at a time or in pages. Source: LIST-1 to LIST-6. */
import type { ModeratedPage } from '@hub/contract'
import { decodeId, type IdPrefix } from '@hub/domain'
import type { Queries, Sql, SqlFragment } from '@hub/store'
import { Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'

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

/** A table whose rows are resources of an account and mode. */
interface ResourceTable<Row, Resource> {
  /** Has the columns `id`, `account`, `mode`, `status` and `created_at`. */
  readonly table: 'command.senders' | 'command.templates'
  /** The declined ones whose name was submitted again, with the same columns. */
  readonly superseded: 'command.superseded_senders' | 'command.superseded_templates'
  readonly prefix: IdPrefix
  readonly columns: (q: Queries) => SqlFragment
  readonly toResource: (row: Row) => Resource
}

/** Reads the resources in a table. */
export const makeResourceReader = <
  Row extends { readonly id: string; readonly created_at: Date },
  Resource extends { readonly id: string },
>(
  sql: Sql['Service'],
  { columns, prefix, superseded, table, toResource }: ResourceTable<Row, Resource>,
) => {
  const select = (owner: Owner, withSuperseded: boolean, suffix: (q: Queries) => SqlFragment) =>
    sql.run((q) => {
      const from = (name: string): SqlFragment => q`
        SELECT ${columns(q)} FROM ${q(name)} WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}`
      const rows = withSuperseded ? q`${from(table)} UNION ALL ${from(superseded)}` : from(table)
      return q<Row[]>`SELECT * FROM (${rows}) AS resource WHERE true ${suffix(q)}`
    }, STATEMENT_DEADLINE)
  const find = Effect.fnUntraced(function* (owner: Owner, id: string) {
    const uuid = decodeId(prefix, id)
    return uuid === null ? null : ((yield* select(owner, true, (q) => q`AND id = ${uuid}`))[0] ?? null)
  })
  return {
    /** `null` when the owner has none with this public id. */
    read: (owner: Owner, id: string) =>
      Effect.map(find(owner, id), (row) => (row === null ? null : toResource(row))),
    /**
     * Newest first; `null` when `startingAfter` names none of the owner. Superseded ones are listed
     * only with `status: 'declined'`.
     */
    page: Effect.fnUntraced(function* (owner: Owner, { limit, startingAfter, status }: ModeratedPage) {
      const after = startingAfter === null ? null : yield* find(owner, startingAfter)
      if (startingAfter !== null && after === null) return null
      const rows = yield* select(
        owner,
        status === 'declined',
        (q) => q`${status === null ? q`` : q`AND status = ${status}`}
          ${after === null ? q`` : q`AND (created_at, id) < (${after.created_at}, ${after.id})`}
          ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`,
      )
      return toResourcePage(rows, limit, toResource)
    }),
  }
}
