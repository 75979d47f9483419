/** Writes docs/mutations.md: `npm run generate`, after `npm run simulate -- --mutations`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MUTATIONS, ROOT, SEEDS } from './mutations.ts'
import { readResults } from './results.ts'

const PAGE = join(ROOT, 'docs/mutations.md')

const INTRODUCTION = `# Mutations

A mutation is a fault in the code of the hub, made on purpose. It replaces an expression or a statement of one
function while Node loads its file. Some mutations replace two, because each of two mechanisms hides the lack of
the other: only a member with its lease appends a fence, and a shard closes when it reads the fence of another
member; a shard reads its log to the end, and then to its own fence; a shard remembers a finished message
completely at first, and then its id.
The [simulation](verification.md) must find it: one of the seeds from 1 to
${SEEDS.toLocaleString('en')} must violate a guarantee. Otherwise the model or its checks are incomplete.

\`npm run simulate -- --mutations\` runs all mutations, \`--mutation <text>\` those with this text in their
names. Each run of a mutation begins with the seed that found it last. Then \`npm run generate\` writes this page.

No mutation removes the check that of two members with one epoch only the first one opens the shard. No seed
finds it, because the lease hides it. A member reads the end of the log after the lease of its predecessor has
ended. If the fence of the predecessor is not in the log then, it had not opened the shard under its lease, so it
has claimed and submitted nothing in this epoch. All it could record without a lease is a deadline that passes
before it learns of its loss.
`

const resultOf = (name: string): string => {
  const found = readResults()[name]
  if (found === undefined) return 'not run | '
  return found === null ? 'not found | ' : `${found.seed} | ${found.violation}`
}

/** The rows of the table, without the padding of the formatter. */
export const rowsOf = (): ReadonlyArray<string> =>
  MUTATIONS.map(({ name }) => `| ${name} | ${resultOf(name)} |`)

/** The rows that the page contains, without padding. */
export const rowsOnPage = (): ReadonlyArray<string> =>
  readFileSync(PAGE, 'utf8')
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

const summary = (): string => {
  const results = MUTATIONS.map(({ name }) => readResults()[name])
  const missed = results.filter((found) => found === null).length
  const notRun = results.filter((found) => found === undefined).length
  const found = MUTATIONS.length - missed - notRun
  return `Of ${MUTATIONS.length} mutations, ${found} were found, ${missed} were not found, and ${notRun} were not run.`
}

if (import.meta.main) {
  const table = ['| mutation | seed | violated guarantee |', '| --- | --- | --- |', ...rowsOf()].join('\n')
  writeFileSync(PAGE, `${INTRODUCTION}\n${summary()}\n\n${table}\n`)
}
