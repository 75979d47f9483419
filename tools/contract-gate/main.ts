/**
 * The contract gate, a part of `npm run verify`. It fails when the definition of an API breaks its
 * contract: the API of clients, and the operations API of hub staff.
 *
 *   node tools/contract-gate/main.ts              compare, and fail on a breaking change
 *   node tools/contract-gate/main.ts --additions  the same, and list the additive changes
 *   node tools/contract-gate/main.ts --accept     the same, and add additive changes to the baselines;
 *                                                 with a folder behind it, only to that of its API
 *
 * The baseline is `openapi.baseline.json` beside `openapi.json`. It is committed, so that a fresh clone
 * compares against the same document. Only `--accept` changes it, and only by additive changes.
 * Where there is a git history, the committed `openapi.json` is a second baseline: it covers
 * additions that nobody accepted yet.
 *
 * No option accepts a breaking change: it needs a new path version (VER-8).
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { descriptionText, type JsonObject } from '@hub/contract'
import { operationsDescriptionText } from '@hub/operations-api'
import { compareDescriptions } from './compare-descriptions.ts'
import { type Outcome, outcomeOf } from './outcome.ts'

/** An API: the folder of its description, and the description that its definition makes now. */
interface Contract {
  readonly folder: string
  readonly text: () => string
  /** Whether clients of one version work with the previous version of the API. Source: docs/versioning.md. */
  readonly readsOlderAnswers: boolean
}

const CONTRACTS: ReadonlyArray<Contract> = [
  { folder: 'packages/contract', text: descriptionText, readsOlderAnswers: false },
  { folder: 'apps/operations-api', text: operationsDescriptionText, readsOlderAnswers: true },
]

const ROOT = join(import.meta.dirname, '../..')
/** The folders whose baseline gets the additive changes; empty: all. */
const accepted = process.argv.includes('--accept')
  ? process.argv.slice(process.argv.indexOf('--accept') + 1)
  : null
const showsAdditions = process.argv.includes('--additions')
const today = new Date().toISOString().slice(0, 10)

const parse = (text: string): JsonObject => JSON.parse(text) as JsonObject

/** The description in the last commit; null where there is none. */
const lastCommitted = (folder: string): JsonObject | null => {
  try {
    const text = execFileSync('git', ['show', 'HEAD:./openapi.json'], {
      cwd: join(ROOT, folder),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 64 * 1024 * 1024,
    })
    return parse(text)
  } catch {
    return null
  }
}

const check = ({ folder, readsOlderAnswers, text }: Contract): Outcome => {
  const baselineFile = join(ROOT, folder, 'openapi.baseline.json')
  if (!existsSync(baselineFile)) {
    const missing = `${folder}/openapi.baseline.json is missing. Restore it from the git history.`
    return { note: `no comparison in ${folder}.`, additions: [], errors: [missing] }
  }
  const now = parse(text())
  const committed = lastCommitted(folder)
  const changesSince = (base: JsonObject) => compareDescriptions(base, now, today, readsOlderAnswers)
  const outcome = outcomeOf({
    folder,
    changes: changesSince(parse(readFileSync(baselineFile, 'utf8'))),
    sinceCommit: committed === null ? [] : changesSince(committed),
    isStale: readFileSync(join(ROOT, folder, 'openapi.json'), 'utf8') !== text(),
  })
  if (showsAdditions) for (const addition of outcome.additions) console.log(addition)
  const isAccepted = accepted !== null && (accepted.length === 0 || accepted.includes(folder))
  if (!isAccepted || outcome.errors.length > 0) return outcome
  writeFileSync(baselineFile, text())
  return { ...outcome, note: `accepted ${outcome.additions.length} additive change(s) in ${folder}.` }
}

const outcomes = CONTRACTS.map(check)
for (const { note } of outcomes) console.log(`contract gate: ${note}`)
// Last, and on a stream of their own, so that nothing hides them.
for (const { errors } of outcomes) for (const error of errors) console.error(`contract gate: ${error}`)
process.exitCode = outcomes.every(({ errors }) => errors.length === 0) ? 0 : 1
