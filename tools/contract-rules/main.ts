/**
 * Checks the rules of docs/contract, a part of `npm run verify`: each rule has a test that names it,
 * each cited number exists, and no number occurs twice. `--list` prints each rule with its tests.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checksIn, faultsOf, type Page, rulesIn } from './rules.ts'

const ROOT = join(import.meta.dirname, '../..')

const pagesOf = (pattern: string): ReadonlyArray<Page> =>
  globSync(pattern, { cwd: ROOT, exclude: (path) => /(?:^|\/)(?:node_modules|\..+)(?:\/|$)/u.test(path) })
    .toSorted()
    .map((file) => ({ file, text: readFileSync(join(ROOT, file), 'utf8') }))

const contract = pagesOf('docs/contract/*.md')
  .filter(({ file }) => !file.endsWith('README.md'))
  .map(rulesIn)
const sources = pagesOf('{apps,benchmarks,examples,infra,packages,scripts,test,tools}/**/*.{ts,tsx,mjs,py}')
const tests = sources.map(checksIn)

const rules = contract.flatMap((page) => page.rules)
const checks = tests.flatMap((page) => page.checks)
const faults = [
  ...contract.flatMap((page) => page.faults),
  ...tests.flatMap((page) => page.faults),
  ...faultsOf(rules, checks, [
    ...sources,
    ...pagesOf('{README.md,docs/**/*.md,packages/**/*.md,test/**/*.md}'),
  ]),
]

if (process.argv.includes('--list')) {
  for (const { number, text } of rules) {
    console.log(`${number} ${text}`)
    for (const { at, title } of checks.filter(({ rule }) => rule === number))
      console.log(`    ${at} ${title}`)
  }
}
for (const fault of faults) console.error(fault)
console.log(`${rules.length} rules, named by tests ${checks.length} times, ${faults.length} faults`)
process.exitCode = faults.length === 0 ? 0 : 1
