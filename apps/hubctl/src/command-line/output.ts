/**
 * What commands print. Results go to standard output: a table or a few lines for people, or, with `--json`, exactly one JSON document.
 * Everything else (which hub, notes, failures) goes to standard error, so that a result can always be piped.
 */
import { Console, Effect } from 'effect'
import { CliOutput, Flag, GlobalFlag } from 'effect/cli'
import type { CommandFailed } from './failure.ts'

/** `--json`, on every command. */
export const Json = GlobalFlag.Setting('json')({
  flag: Flag.Boolean('json').pipe(
    Flag.withDescription('Print one JSON document instead of a table'),
    Flag.withDefault(false),
  ),
})

/** Prints the result of a command: `value` as JSON, or what `render` makes of it for people. To be called once. */
export const show = Effect.fnUntraced(function* <A>(value: A, render: (value: A) => string) {
  const json = yield* Json
  yield* Console.log(json ? JSON.stringify(value, null, 2) : render(value))
})

/** A sentence beside the result, on standard error. */
export const note = (sentence: string): Effect.Effect<void> => Console.error(sentence)

/** Tells a failure on standard error. */
export const printFailure = (failure: CommandFailed, json: boolean): Effect.Effect<void> =>
  Console.error(
    json
      ? JSON.stringify({ error: { code: failure.code, message: failure.message } }, null, 2)
      : `hubctl: ${failure.message} (${failure.code})`,
  )

/** What a cell may hold; nothing is shown as a dash. */
export type Cell = string | number | boolean | null | undefined

/** Control characters would move the cursor of whoever reads: names and reasons come from others. */
const CONTROL = /\p{Cc}/gu

const textOf = (cell: Cell): string => {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no'
  return String(cell).replace(CONTROL, '?')
}

const pad = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - CliOutput.displayWidth(text)))

const GAP = '  '

const aligned = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => CliOutput.displayWidth(row[column] ?? ''))),
  )
  return rows
    .map((row) =>
      row
        .map((text, column) => pad(text, widths[column] ?? 0))
        .join(GAP)
        .trimEnd(),
    )
    .join('\n')
}

/** Rows under their headings, by the name of each column; `none` when there are no rows. */
export const table = <Row>(
  rows: ReadonlyArray<Row>,
  columns: Readonly<Record<string, (row: Row) => Cell>>,
  none = 'Nothing.',
): string =>
  rows.length === 0
    ? none
    : aligned([
        Object.keys(columns).map((heading) => heading.toUpperCase()),
        ...rows.map((row) => Object.values(columns).map((cell) => textOf(cell(row)))),
      ])

/** One thing, a line for each of its fields. */
export const fields = (values: Readonly<Record<string, Cell>>): string =>
  aligned(Object.entries(values).map(([name, value]) => [name, textOf(value)]))
