/**
 * The contract gate, a part of `npm run verify`. It fails when the API definition breaks the
 * contract.
 *
 *   node tools/contract-gate/main.ts            compare, and fail on a breaking change
 *   node tools/contract-gate/main.ts --accept   the same, and add additive changes to the baseline
 *
 * The baseline is `packages/contract/openapi.baseline.json`. It is committed, so that a fresh clone
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
import { type Change, compareDescriptions } from './compare-descriptions.ts'

const contractFolder = join(import.meta.dirname, '../../packages/contract')
const baselineFile = join(contractFolder, 'openapi.baseline.json')
const today = new Date().toISOString().slice(0, 10)

const parse = (text: string): JsonObject => JSON.parse(text) as JsonObject

/** The description in the last commit; null where there is none. */
const lastCommitted = (): JsonObject | null => {
  try {
    const text = execFileSync('git', ['show', 'HEAD:./openapi.json'], {
      cwd: contractFolder,
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

const main = (): number => {
  if (!existsSync(baselineFile)) {
    console.error(
      'contract gate: packages/contract/openapi.baseline.json is missing. Restore it from the git history.',
    )
    return 1
  }
  const now = parse(descriptionText())
  const changes = compareDescriptions(parse(readFileSync(baselineFile, 'utf8')), now, today)
  const committed = lastCommitted()
  const sinceCommit = committed === null ? [] : compareDescriptions(committed, now, today)
  const breaks = new Map(
    [...changes, ...sinceCommit]
      .filter((change) => change.kind === 'breaking')
      .map((change) => [`${change.rule} ${change.where}`, change] as const),
  )
  if (breaks.size > 0) {
    console.error(
      `contract gate: ${breaks.size} breaking change(s). Restore the previous definition, or add a new path version.\n${list([...breaks.values()])}`,
    )
    return 1
  }
  const additions = changes.filter((change) => change.kind === 'additive')
  if (process.argv.includes('--accept')) {
    writeFileSync(baselineFile, descriptionText())
    console.log(`contract gate: accepted ${additions.length} additive change(s).`)
  } else if (additions.length > 0) {
    console.log(
      `contract gate: ${additions.length} additive change(s), allowed. Run with --accept to add them to the baseline.\n${list(additions)}`,
    )
  } else {
    console.log('contract gate: no change.')
  }
  if (readFileSync(join(contractFolder, 'openapi.json'), 'utf8') !== descriptionText()) {
    console.error('contract gate: openapi.json is stale. Run: npm run generate')
    return 1
  }
  return 0
}

process.exitCode = main()
