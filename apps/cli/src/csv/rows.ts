/** Parses the text of a CSV file to rows with their line numbers. */
import { Readable } from 'node:stream'
import { refused } from '@hub/command-line'
import { CsvError, type Options, parse } from 'csv-parse'

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

/** The delimiter that occurs most in the heading: a spreadsheet writes `;` in many countries. */
const delimiterOf = (heading: string): string => {
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

const newlinesIn = (cells: ReadonlyArray<string>): number => {
  let count = 0
  for (const cell of cells) for (const character of cell) if (character === '\n') count += 1
  return count
}

const prepend = async function* (first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first
  yield* rest
}

export interface Heading {
  readonly columns: ReadonlyArray<string>
  readonly rows: AsyncGenerator<Row, void, undefined>
}

/** Reads the heading, and returns the rows behind it. `delimiter`: `null` to take it from the heading. */
export const readRows = async (
  texts: AsyncGenerator<string, void, undefined>,
  delimiter: string | null,
): Promise<Heading> => {
  const first = await texts.next()
  const firstText = first.done === true ? '' : first.value
  /** The line in which the last row ends. */
  let lastLine = 0
  const options: Options<Parsed, Array<string>> = {
    bom: true,
    delimiter: delimiter ?? delimiterOf(firstText.split('\n', 1)[0] ?? ''),
    max_record_size: MAX_ROW_CHARACTERS,
    // The number of cells is checked with the line and the column.
    relax_column_count: true,
    skip_empty_lines: true,
    // The parser calls this at once. A reader gets the rows later, and not those before a mistake.
    on_record: (cells, { lines }) => {
      lastLine = lines
      return { cells, line: lines - newlinesIn(cells) }
    },
  }
  // The types of the library do not know that `on_record` can change the type of a row.
  const parser = parse(options as unknown as Options)
  const source = Readable.from(prepend(firstText, texts))
  source.on('error', (error) => parser.destroy(error))
  source.pipe(parser)
  const parsed = (parser as AsyncIterable<Parsed>)[Symbol.asyncIterator]()
  const next = async (): Promise<Parsed | null> => {
    try {
      const result = await parsed.next()
      return result.done === true ? null : result.value
    } catch (error) {
      throw error instanceof CsvError ? ofParser(error, lastLine + 1) : error
    }
  }
  const heading = await next()
  if (heading === null) {
    throw refused('csv_invalid', 'Line 1: the file is empty. The first line must name the columns.')
  }
  const rows = async function* (): AsyncGenerator<Row, void, undefined> {
    try {
      for (let number = 1; ; number++) {
        const row = await next()
        if (row === null) return
        yield { number, ...row }
      }
    } finally {
      source.destroy()
      parser.destroy()
    }
  }
  return { columns: heading.cells.map((cell) => cell.trim()), rows: rows() }
}
