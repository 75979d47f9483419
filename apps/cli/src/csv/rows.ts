/** Parses the text of a CSV file to rows with their line numbers. */
import { refused } from '@hub/command-line'
import { CsvError, parse } from 'csv-parse'
import { lineEndsIn } from './count.ts'

interface Parsed {
  /** The line of the file in which the row begins. */
  readonly line: number
  readonly cells: ReadonlyArray<string>
}

export interface Row extends Parsed {
  /** 1 for the first row after the heading. */
  readonly number: number
}

/** A quote that is not closed would make the rest of the file one cell. Ten rows of the longest cells. */
const MAX_ROW_CHARACTERS = 100_000

const DELIMITERS = [',', ';', '\t'] as const

/** The text of the heading that is in no quotes. A quoted cell may contain delimiters and line ends. */
const unquotedHeading = (text: string): string =>
  /^[\r\n]*(?<heading>(?:[^"\r\n]+|"[^"]*(?:"|$))*)/u
    .exec(text)
    ?.groups?.['heading']?.replaceAll(/"[^"]*(?:"|$)/gu, '') ?? ''

/** The delimiter that occurs most in the heading: a spreadsheet writes `;` in many countries. */
const delimiterOf = (text: string): string => {
  const heading = unquotedHeading(text)
  const counts = DELIMITERS.map((delimiter) => heading.split(delimiter).length)
  return DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ','
}

/** The sentences of the mistakes that the parser finds. */
const PROBLEMS: Readonly<Record<string, string>> = {
  CSV_MAX_RECORD_SIZE: `a row has more than ${MAX_ROW_CHARACTERS} characters: a quote may not be closed, or a cell is too long`,
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  CSV_INVALID_CLOSING_QUOTE: 'text follows a closing quote',
  INVALID_OPENING_QUOTE: 'a quote stands inside a cell that does not begin with one',
}

/** `line`: where the row begins. The parser only knows where it gave up. */
const ofParser = (error: CsvError, line: number): unknown => {
  const place: unknown = Reflect.get(error, 'column')
  const column = typeof place === 'number' ? `, column ${place + 1}` : ''
  return refused(
    'csv_invalid',
    `Line ${line}${column}: ${PROBLEMS[error.code] ?? 'the row is not valid CSV'}.`,
  )
}

/** The empty lines before a mistake. `known`: those before the last row. */
const emptyLinesBefore = (error: CsvError, known: number): number => {
  const count: unknown = Reflect.get(error, 'empty_lines')
  return typeof count === 'number' ? count : known
}

/** The line ends of a row: those within its cells, and its own. */
const lineEndsOf = (cells: ReadonlyArray<string>): number =>
  cells.reduce((count, cell) => count + lineEndsIn(cell), 1)

/** A parser that gets a text in pieces, and returns the rows that end in each of them. */
const makeParser = (delimiter: string) => {
  let rows: Array<Parsed> = []
  /** The line ends of all rows before, without those of empty lines. */
  let ended = 0
  let emptyLines = 0
  const parser = parse({
    bom: true,
    delimiter,
    max_record_size: MAX_ROW_CHARACTERS,
    // A file may mix them, for example after it was edited on another system.
    record_delimiter: ['\r\n', '\n', '\r'],
    // The number of cells is checked with the line and the column.
    relax_column_count: true,
    skip_empty_lines: true,
    // The rows do not pass through the stream: one step for each of them costs more than to parse it.
    // The parser counts the lines of quoted cells with \r\n twice.
    on_record: (cells: ReadonlyArray<string>, { empty_lines }) => {
      emptyLines = empty_lines
      rows.push({ cells, line: ended + emptyLines + 1 })
      ended += lineEndsOf(cells)
      return null
    },
  })
  // The callbacks get the errors.
  parser.on('error', () => {})
  parser.resume()
  const take = (give: (done: (error?: Error | null) => void) => void): Promise<ReadonlyArray<Parsed>> =>
    new Promise((resolve, reject) =>
      give((error) => {
        if (error instanceof CsvError)
          reject(ofParser(error, ended + emptyLinesBefore(error, emptyLines) + 1))
        else if (error) reject(error)
        else resolve(rows)
        rows = []
      }),
    )
  return {
    parse: (text: string) => take((done) => parser.write(text, done)),
    /** The row that no newline ends. */
    end: () => take((done) => parser.end(done)),
  }
}

export interface Heading {
  readonly columns: ReadonlyArray<string>
  /** The rows behind it, in groups: those of a block of the file. */
  readonly rows: AsyncGenerator<ReadonlyArray<Row>, void, undefined>
}

/** Reads the heading, and returns the rows behind it. `delimiter`: `null` to take it from the heading. */
export const readRows = async (
  texts: AsyncGenerator<string, void, undefined>,
  delimiter: string | null,
): Promise<Heading> => {
  const first = await texts.next()
  const firstText = first.done === true ? '' : first.value
  const parser = makeParser(delimiter ?? delimiterOf(firstText))
  const groups = (async function* () {
    yield await parser.parse(firstText)
    for await (const text of texts) yield await parser.parse(text)
    yield await parser.end()
  })()
  let heading: Parsed | undefined
  let behind: ReadonlyArray<Parsed> = []
  while (heading === undefined) {
    const group = await groups.next()
    if (group.done === true) {
      throw refused('csv_invalid', 'Line 1: the file is empty. The first line must name the columns.')
    }
    ;[heading, ...behind] = group.value
  }
  const rows = async function* (): AsyncGenerator<ReadonlyArray<Row>, void, undefined> {
    let count = 0
    const numbered = (group: ReadonlyArray<Parsed>): ReadonlyArray<Row> =>
      group.map((row) => ({ number: ++count, ...row }))
    yield numbered(behind)
    behind = []
    for await (const group of groups) yield numbered(group)
  }
  return { columns: heading.cells.map((cell) => cell.trim()), rows: rows() }
}
