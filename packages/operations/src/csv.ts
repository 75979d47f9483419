/** Rows as CSV, for spreadsheets. */

type Cell = string | number | boolean | null

/**
 * A cell of RFC 4180, without control characters. A spreadsheet would run a text that begins like a
 * formula, so such a text gets an apostrophe.
 */
const csvCell = (cell: Cell): string => {
  const text = cell === null ? '' : String(cell).replace(/\p{Cc}/gu, '?')
  const safe = typeof cell === 'string' && /^[=+\-@]/u.test(text) ? `'${text}` : text
  return /[",]/u.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Rows with a line of headings, also without rows. */
export const csv = <Name extends string>(
  rows: ReadonlyArray<Readonly<Record<Name, Cell>>>,
  columns: ReadonlyArray<Name>,
): string =>
  [columns.join(','), ...rows.map((row) => columns.map((name) => csvCell(row[name])).join(','))].join('\n')
