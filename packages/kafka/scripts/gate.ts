/**
 * The gate of the record schemas, a step of `npm run verify`. It fails when a version cannot read a
 * version before it (BACKWARD_TRANSITIVE), when a file does not match its fingerprint, or when a
 * version of an earlier commit is missing or changed. Without a git history it omits the last
 * check.
 */
import { fileURLToPath } from 'node:url'
import {
  type Publication,
  publicationProblems,
  publicationsOf,
  schemaProblems,
} from '../src/schemas/compatibility.ts'
import { SCHEMAS } from '../src/schemas/schemas.ts'
import { git } from '../../../tools/git.ts'

const folder = fileURLToPath(new URL('../schemas', import.meta.url))

/** The published versions of each commit that changed the index. */
const committed = (): ReadonlyArray<Publication> =>
  (git(folder, 'log', '--format=%H', '--', 'ids.json') ?? '')
    .split('\n')
    .filter((commit) => commit !== '')
    .flatMap((commit) => {
      const index = git(folder, 'show', `${commit}:./ids.json`)
      return index === null ? [] : publicationsOf(index)
    })

const problems = new Set([...schemaProblems(SCHEMAS), ...publicationProblems(SCHEMAS, committed())])
if (problems.size === 0) {
  console.log(`schema gate: ${SCHEMAS.length} versions, each can read all versions before it.`)
} else {
  console.error(
    `schema gate: ${problems.size} problem(s).\n${[...problems].map((problem) => `  ${problem}`).join('\n')}`,
  )
  process.exitCode = 1
}
