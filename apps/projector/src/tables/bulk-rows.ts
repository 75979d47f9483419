/**
 * Parts of statements that write many rows. A table lists its columns once, and the statement passes one array
 * per column, which `unnest` turns into rows.
 */
import { type Queries, sqlArray, sqlBytesArray, type SqlFragment } from '@hub/store'
import type { ReadSchema } from './read-schema.ts'

export interface Column<Row> {
  readonly name: string
  /** The type of its values in SQL. */
  readonly type: string
  /** Times are ISO text, bytes are hexadecimal text. `undefined` is stored as null. */
  readonly value: (row: Row) => string | number | boolean | null | undefined
  /** Whether clients or operators choose the value. Then it can contain characters that need quotes. */
  readonly isFree?: true
  /** The expression of the stored value, if it is not the value itself. */
  readonly stored?: string
}

const arrayOf = <Row>({ isFree, type, value }: Column<Row>, rows: ReadonlyArray<Row>) => {
  const values = rows.map((row) => value(row) ?? null)
  // The driver quotes. It inspects every value, so it gets only those that may need quotes.
  if (isFree) return values
  return type === 'bytea' ? sqlBytesArray(values as ReadonlyArray<string>) : sqlArray(values)
}

type Named = ReadonlyArray<{ readonly name: string }>

const namesOf = (columns: Named) => columns.map(({ name }) => name)

const list = (q: Queries, parts: ReadonlyArray<string>): SqlFragment => q`${q.unsafe(parts.join(', '))}`

/**
 * `INSERT INTO table AS stored (…) SELECT … AS w`. A condition, an order and what happens to a row that exists
 * may follow.
 */
export const insertRows = <Row>(
  q: Queries,
  table: `${ReadSchema}.${string}`,
  columns: ReadonlyArray<Column<Row>>,
  rows: ReadonlyArray<Row>,
): SqlFragment => {
  const names = namesOf(columns)
  return q`
    INSERT INTO ${q(table)} AS stored (${list(q, names)})
    SELECT ${list(
      q,
      columns.map(({ name, stored }) => stored ?? name),
    )}
      FROM unnest(${columns.map(
        (column, index) =>
          q`${q.unsafe(index === 0 ? '' : ',')} ${arrayOf(column, rows)}::${q.unsafe(column.type)}[]`,
      )}) AS w (${list(q, names)})`
}

const assign = (q: Queries, columns: Named, value: (name: string) => string): SqlFragment =>
  list(
    q,
    columns.map(({ name }) => `${name} = ${value(name)}`),
  )

/** `SET`: the new values replace those of the stored row. */
export const replace = (q: Queries, columns: Named) => assign(q, columns, (name) => `excluded.${name}`)

/** `SET`: the new values are added to those of the stored row. */
export const add = (q: Queries, columns: Named) =>
  assign(q, columns, (name) => `stored.${name} + excluded.${name}`)

/** `SET`: the new values are written where the stored row has none. */
export const keepFirst = (q: Queries, columns: Named) =>
  assign(q, columns, (name) => `coalesce(stored.${name}, excluded.${name})`)

/** Adds counts to the rows with these keys, or writes the rows. Locks them in the order of their keys. */
export const addToRows = <Row>(
  q: Queries,
  table: `${ReadSchema}.${string}`,
  key: ReadonlyArray<Column<Row>>,
  counts: ReadonlyArray<Column<Row>>,
  rows: ReadonlyArray<Row>,
) => {
  const names = namesOf(key)
  return q`
    ${insertRows(q, table, [...key, ...counts], rows)} ORDER BY ${list(q, names)}
    ON CONFLICT (${list(q, names)}) DO UPDATE SET ${add(q, counts)}`
}
