/**
 * The output of commands. A result goes to standard output: tables and lines for people, or one
 * JSON document with `--json`. Notes and failures go to standard error, so that a result can be
 * piped.
 */
import { onOneLine } from '@hub/text'
import { Console, Effect } from 'effect'
import { CliOutput, Flag, GlobalFlag } from 'effect/cli'
import type { CommandFailed } from './failure.ts'

/** `--json`, a flag of every command. */
export const Json = GlobalFlag.Setting('json')({
  flag: Flag.Boolean('json').pipe(
    Flag.withDescription('Print one JSON document instead of a table'),
    Flag.withDefault(false),
  ),
})

/** Prints the result: `value` as JSON, or the text of `render`. A command calls it once. */
export const show = Effect.fnUntraced(function* <A>(value: A, render: (value: A) => string) {
  const json = yield* Json
  yield* Console.log(json ? JSON.stringify(value, null, 2) : render(value))
})

/** Prints a sentence on standard error. */
export const printNote = (sentence: string): Effect.Effect<void> => Console.error(sentence)

export const printFailure = (program: string, failure: CommandFailed, json: boolean): Effect.Effect<void> =>
  Console.error(
    json
      ? JSON.stringify({ error: { code: failure.code, message: failure.message } }, null, 2)
      : `${program}: ${failure.message} (${failure.code})`,
  )

export type Cell = string | number | boolean | null | undefined

/** Columns by heading, in order. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => Cell>>

const cellText = (cell: Cell): string => {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no'
  // A line feed would end the line of the table.
  return onOneLine(String(cell))
}

const pad = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - CliOutput.displayWidth(text)))

const align = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => CliOutput.displayWidth(row[column] ?? ''))),
  )
  return rows
    .map((row) =>
      row
        .map((text, column) => pad(text, widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** A table with headings, or `none` without rows. */
export const table = <Row>(rows: ReadonlyArray<Row>, columns: Columns<Row>, none = 'Nothing.'): string =>
  rows.length === 0
    ? none
    : align([
        Object.keys(columns).map((heading) => heading.toUpperCase()),
        ...rows.map((row) => Object.values(columns).map((cell) => cellText(cell(row)))),
      ])

/** Prints rows as a list object or a table. */
export const showList = <Row>(data: ReadonlyArray<Row>, columns: Columns<Row>, none?: string) =>
  show({ object: 'list', data }, () => table(data, columns, none))

/** One object, with one line for each field. */
export const fields = (values: Readonly<Record<string, Cell>>): string =>
  align(Object.entries(values).map(([name, value]) => [name, cellText(value)]))
