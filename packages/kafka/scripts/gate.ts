/**
 * The gate of the record schemas, a part of `npm run verify`: fails when a version cannot read every version before it
 * (BACKWARD_TRANSITIVE), when a file is not what its id stands for, and when something that was ever committed as published is
 * gone or changed. Without a git history the last part is what it is without one: the index speaks for itself.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  type Publication,
  publicationProblems,
  publicationsOf,
  schemaProblems,
  SCHEMAS,
} from '../src/schemas/schemas.ts'

const folder = fileURLToPath(new URL('../schemas', import.meta.url))

const git = (...args: ReadonlyArray<string>): string | null => {
  try {
    return execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return null
  }
}

/** What each commit that changed the index had published. */
const committed = (): ReadonlyArray<Publication> =>
  (git('log', '--format=%H', '--', 'ids.json') ?? '')
    .split('\n')
    .filter((commit) => commit !== '')
    .flatMap((commit) => {
      const index = git('show', `${commit}:./ids.json`)
      return index === null ? [] : publicationsOf(index)
    })

const problems = new Set([...schemaProblems(SCHEMAS), ...publicationProblems(SCHEMAS, committed())])
if (problems.size === 0) {
  console.log(`schema gate: ${SCHEMAS.length} versions, each reads all before it.`)
} else {
  console.error(
    `schema gate: ${problems.size} problem(s).\n${[...problems].map((one) => `  ${one}`).join('\n')}`,
  )
  process.exitCode = 1
}
