/**
 * Lines of CSV (RFC 4180) that spreadsheets read as data, after the guidance of OWASP ("CSV Injection", and
 * ASVS 5.0, 1.2.10): a text that a spreadsheet would run as a formula gets an apostrophe. A spreadsheet of
 * another country splits a line at other characters, so the place after each of them counts as the start of a
 * cell, too. OWASP names the full-width forms because spreadsheets of East Asia accept them.
 */

type Cell = string | number | boolean | null | undefined

/** The start of a cell for a spreadsheet, and the character with which a formula begins. */
const FORMULA = /(?<=^|[,;|\t\r\n])(?<before>[ "']*)(?=[=+\-@\t\r\0＝＋－＠])/gu

/** A text keeps its characters, apart from the apostrophes. Numbers are no formulas. */
const csvCell = (cell: Cell): string => {
  const text = String(cell ?? '')
  const safe = typeof cell === 'string' ? text.replace(FORMULA, "'$<before>") : text
  return /[",;|\t\r\n]/u.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** One line, without its end. */
export const csvLine = (cells: ReadonlyArray<Cell>): string => cells.map(csvCell).join(',')
