/**
 * The gate of the migrations, a step of `npm run verify`. A database that has applied a migration
 * refuses another text under its name, so an edit of a committed migration stops every later
 * deployment. The gate fails when a migration differs from the commit that added it, also in a
 * comment, or is missing. Without a git history it compares nothing.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { git } from '../../../tools/git.ts'

const folder = fileURLToPath(new URL('../migrations', import.meta.url))

/** Earlier migrations were edited before the first database was in use. */
const FIRST_CHECKED = '0020'

/** The first commit of each migration. The log has the newest commit first. */
const addedBy = (): ReadonlyMap<string, string> => {
  const commits = new Map<string, string>()
  const log = git(
    folder,
    'log',
    '--diff-filter=A',
    '--no-renames',
    '--relative',
    '--name-only',
    '--format=commit %H',
    '--',
    '.',
  )
  let commit = ''
  for (const line of (log ?? '').split('\n')) {
    if (line.startsWith('commit ')) commit = line.slice('commit '.length)
    else if (line.endsWith('.sql') && line >= FIRST_CHECKED) commits.set(line, commit)
  }
  return commits
}

const problemOf = (name: string, commit: string): ReadonlyArray<string> => {
  const file = join(folder, name)
  if (!existsSync(file)) return [`${name} is missing. Commit ${commit} added it.`]
  const first = git(folder, 'show', `${commit}:./${name}`)
  return first === readFileSync(file, 'utf8')
    ? []
    : [`${name} differs from commit ${commit}, which added it. Add a new migration instead.`]
}

const migrations = [...addedBy()]
const problems = migrations.flatMap(([name, commit]) => problemOf(name, commit))
if (problems.length === 0) {
  console.log(`migration gate: ${migrations.length} migrations are as they were added.`)
} else {
  console.error(
    `migration gate: ${problems.length} problem(s).\n${problems.map((problem) => `  ${problem}`).join('\n')}`,
  )
  process.exitCode = 1
}
