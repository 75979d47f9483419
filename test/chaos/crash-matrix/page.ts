/** Writes the table of crash points into README.md: `npm run generate`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CRASH_POINTS } from '@hub/crash-points'

const PAGE = join(import.meta.dirname, 'README.md')
const BEGIN = '<!-- points: written by page.ts -->'
const END = '<!-- end of points -->'

/** A page without the padding of the formatter. */
export const compact = (page: string): string => page.replaceAll(/ {2,}/gu, ' ').replaceAll(/-{3,}/gu, '---')

export const readPage = (): string => readFileSync(PAGE, 'utf8')

/** The page with the current table. */
export const withPoints = (page: string): string => {
  const rows = Object.entries(CRASH_POINTS).map(([point, sentence]) => `| \`${point}\` | ${sentence} |`)
  const table = [
    BEGIN,
    '',
    '| point | what has happened, and what has not |',
    '| --- | --- |',
    ...rows,
    '',
    END,
  ]
  return page.slice(0, page.indexOf(BEGIN)) + table.join('\n') + page.slice(page.indexOf(END) + END.length)
}

if (import.meta.main) writeFileSync(PAGE, withPoints(readPage()))
