/**
 * The contract gate, a part of `npm run verify`. It fails when the definition of an API breaks its
 * contract: the API of clients, and the operations API of hub staff.
 *
 *   node tools/contract-gate/main.ts            compare, and fail on a breaking change
 *   node tools/contract-gate/main.ts --accept   the same, and add additive changes to the baselines;
 *                                               with a folder behind it, only to that of its API
 *
 * The baseline is `openapi.baseline.json` beside `openapi.json`. It is committed, so that a fresh clone
 * compares against the same document. Only `--accept` changes it, and only by additive changes.
 * Where there is a git history, the committed `openapi.json` is a second baseline: it covers
 * additions that nobody accepted yet.
 *
 * No option accepts a breaking change: it needs a new path version (specification, Versioning).
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { descriptionText, type JsonObject } from '@hub/contract'
import { operationsDescriptionText } from '@hub/operations-api'
import { type Change, compareDescriptions } from './compare-descriptions.ts'

/** An API: the folder of its description, and the description that its definition makes now. */
interface Contract {
  readonly folder: string
  readonly text: () => string
}

const CONTRACTS: ReadonlyArray<Contract> = [
  { folder: 'packages/contract', text: descriptionText },
  { folder: 'apps/operations-api', text: operationsDescriptionText },
]

const ROOT = join(import.meta.dirname, '../..')
/** The folders whose baseline gets the additive changes; empty: all. */
const accepted = process.argv.includes('--accept')
  ? process.argv.slice(process.argv.indexOf('--accept') + 1)
  : null
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

const list = (changes: ReadonlyArray<Change>): string =>
  changes.map((change) => `  ${change.rule}: ${change.where}`).join('\n')

/** Returns whether the gate passes. */
const check = ({ folder, text }: Contract): boolean => {
  const baselineFile = join(ROOT, folder, 'openapi.baseline.json')
  if (!existsSync(baselineFile)) {
    console.error(
      `contract gate: ${folder}/openapi.baseline.json is missing. Restore it from the git history.`,
    )
    return false
  }
  const now = parse(text())
  const changes = compareDescriptions(parse(readFileSync(baselineFile, 'utf8')), now, today)
  const committed = lastCommitted(folder)
  const sinceCommit = committed === null ? [] : compareDescriptions(committed, now, today)
  const breaks = new Map(
    [...changes, ...sinceCommit]
      .filter((change) => change.kind === 'breaking')
      .map((change) => [`${change.rule} ${change.where}`, change] as const),
  )
  if (breaks.size > 0) {
    console.error(
      `contract gate: ${breaks.size} breaking change(s) in ${folder}. Restore the previous definition, or add a new path version.\n${list([...breaks.values()])}`,
    )
    return false
  }
  const additions = changes.filter((change) => change.kind === 'additive')
  if (accepted !== null && (accepted.length === 0 || accepted.includes(folder))) {
    writeFileSync(baselineFile, text())
    console.log(`contract gate: accepted ${additions.length} additive change(s) in ${folder}.`)
  } else if (additions.length > 0) {
    console.log(
      `contract gate: ${additions.length} additive change(s) in ${folder}, allowed. Run with --accept to add them to the baseline.\n${list(additions)}`,
    )
  } else {
    console.log(`contract gate: no change in ${folder}.`)
  }
  if (readFileSync(join(ROOT, folder, 'openapi.json'), 'utf8') !== text()) {
    console.error(`contract gate: ${folder}/openapi.json is stale. Run: npm run generate`)
    return false
  }
  return true
}

process.exitCode = CONTRACTS.map(check).every(Boolean) ? 0 : 1
