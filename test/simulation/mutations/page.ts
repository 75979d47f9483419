/**
 * Writes the table of mutations into docs/verification.md: `npm run generate`, after a run of
 * `mutate.ts`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MUTATIONS, ROOT } from './mutations.ts'
import { readResults } from './results.ts'

const PAGE = join(ROOT, 'docs/verification.md')
const BEGIN = '<!-- mutations: written by test/simulation/mutations/page.ts -->'
const END = '<!-- end of mutations -->'

const resultOf = (name: string): string => {
  const found = readResults()[name]
  if (found === undefined) return 'not run | '
  return found === null ? 'not found | ' : `${found.seed} | ${found.violation}`
}

/** The rows of the table, without the padding of the formatter. */
export const rowsOf = (): ReadonlyArray<string> =>
  MUTATIONS.map(({ name }) => `| ${name} | ${resultOf(name)} |`)

/** The rows that the page contains, without padding. */
export const rowsOnPage = (): ReadonlyArray<string> => {
  const page = readFileSync(PAGE, 'utf8')
  const table = page.slice(page.indexOf(BEGIN), page.indexOf(END))
  return table
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
    .map((line) =>
      line
        .split('|')
        .map((cell) => cell.trim())
        .join(' | ')
        .trim(),
    )
}

if (import.meta.main) {
  const page = readFileSync(PAGE, 'utf8')
  const head = ['', '| mutation | first seed | violated guarantee |', '| --- | --- | --- |']
  const table = [BEGIN, ...head, ...rowsOf(), '', END].join('\n')
  writeFileSync(PAGE, page.slice(0, page.indexOf(BEGIN)) + table + page.slice(page.indexOf(END) + END.length))
}
