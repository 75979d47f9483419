/** Rows as CSV, for spreadsheets. */
import { csvLine } from '@hub/text'

type Cell = string | number | boolean | null

/** Rows with a line of headings, also without rows. */
export const csv = <Name extends string>(
  rows: ReadonlyArray<Readonly<Record<Name, Cell>>>,
  columns: ReadonlyArray<Name>,
): string => [columns, ...rows.map((row) => columns.map((name) => row[name]))].map(csvLine).join('\n')
