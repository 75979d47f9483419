/** Pages of lists: a limit, and an opaque cursor that holds the sort key of the last row. */
import { Effect, Option, Schema } from 'effect'
import { type OperationRefused, refused } from './failures.ts'
import { Uuid } from './fields.ts'

/** Rows of one page: more do not fit on a screen, and the read stays bounded. */
export const MAX_PAGE = 1000

/** The input fields of a list. */
export const pageFields = {
  limit: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })),
  /** `next_cursor` of the page before; `null`: the first page. */
  cursor: Schema.NullOr(Schema.String),
}

/** The output of a list. */
export const listOf = <Item extends Schema.Top>(item: Item) =>
  Schema.Struct({
    object: Schema.Literal('list'),
    data: Schema.Array(item),
    next_cursor: Schema.NullOr(Schema.String).annotate({
      description: 'The cursor of the next page; `null` on the last page.',
    }),
  })

interface Page<Value> {
  readonly object: 'list'
  readonly data: ReadonlyArray<Value>
  readonly next_cursor: string | null
}

/** A sort key as a cursor. */
export const encodeCursor = (key: unknown): string => Buffer.from(JSON.stringify(key)).toString('base64url')

/** The sort key in a cursor; `null`: the first page. Fails if it is no cursor of this list. */
export const decodeCursor = <Key>(
  key: Schema.Codec<Key, unknown>,
  cursor: string | null,
): Effect.Effect<Key | null, OperationRefused> => {
  if (cursor === null) return Effect.succeed(null)
  const found = Schema.decodeUnknownOption(Schema.fromJsonString(key))(
    Buffer.from(cursor, 'base64url').toString('utf8'),
  )
  return Option.match(found, {
    onNone: () =>
      Effect.fail(refused('cursor_invalid', 'The cursor is not from a page of this list.', 'cursor')),
    onSome: Effect.succeed,
  })
}

/** The end of the year 9999: PostgreSQL does not read the form in which a `Date` writes later years. */
const LATEST = Date.UTC(10_000, 0) - 1

/** A time in a cursor: milliseconds since the epoch. */
export const CursorTime = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: LATEST }))

/** The sort key of rows by creation time, and the UUID of the row. */
const RowKey = Schema.Tuple([CursorTime, Uuid])

interface KeyedRow {
  readonly created_at: Date
  readonly id: string
}

/** The key of a row in a cursor. */
export const rowKey = ({ created_at, id }: KeyedRow): typeof RowKey.Type => [created_at.getTime(), id]

/** The last row of the page before, by its key; `null`: the first page. */
export const decodeRowCursor = (cursor: string | null): Effect.Effect<KeyedRow | null, OperationRefused> =>
  Effect.map(decodeCursor(RowKey, cursor), (key) =>
    key === null ? null : { created_at: new Date(key[0]), id: key[1] },
  )

/**
 * Makes a page of rows that were read with `limit + 1`. The last of them only shows that another
 * page follows.
 */
export const pageOf = <Row, Value>(
  rows: ReadonlyArray<Row>,
  limit: number,
  toValue: (row: Row) => Value,
  keyOf: (row: Row) => unknown,
): Page<Value> => {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return {
    object: 'list',
    data: shown.map(toValue),
    next_cursor: rows.length > limit && last !== undefined ? encodeCursor(keyOf(last)) : null,
  }
}
