/**
 * The gate of the contract, a part of `npm run verify`: fails when the API as it is defined breaks what it was.
 *
 *   node packages/contract/scripts/gate.ts            compare, and fail on a breaking change
 *   node packages/contract/scripts/gate.ts --accept   the same, and make additive changes part of the baseline
 *
 * What it was is `openapi.baseline.json`: committed, so that a fresh clone compares the same as the one where the change was
 * made, and moved by `--accept` alone, which takes additive changes only. Where there is a git history, the
 * description of the last commit is a second baseline: it covers what was committed and not accepted yet.
 *
 * There is no way to accept a breaking change: it belongs under a new path version (specification, Versioning).
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Change, compareDescriptions, descriptionText, type JsonObject } from '../src/index.ts'

const folder = fileURLToPath(new URL('..', import.meta.url))
const baselineFile = `${folder}openapi.baseline.json`
const today = new Date().toISOString().slice(0, 10)

const parse = (text: string): JsonObject => JSON.parse(text) as JsonObject

/** The description of the last commit; null without git, without a commit, or before the first description. */
const lastCommitted = (): JsonObject | null => {
  try {
    const text = execFileSync('git', ['show', 'HEAD:./openapi.json'], {
      cwd: folder,
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
      'contract gate: packages/contract/openapi.baseline.json is missing. Restore it from the history.',
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
      `contract gate: ${breaks.size} breaking change(s). Keep what was, or add a new path version beside it.\n${list([...breaks.values()])}`,
    )
    return 1
  }
  const additions = changes.filter((change) => change.kind === 'additive')
  if (process.argv.includes('--accept')) {
    writeFileSync(baselineFile, descriptionText())
    console.log(`contract gate: accepted ${additions.length} additive change(s).`)
  } else if (additions.length > 0) {
    console.log(
      `contract gate: ${additions.length} additive change(s), allowed. Make them part of the baseline with --accept.\n${list(additions)}`,
    )
  } else {
    console.log('contract gate: nothing changed.')
  }
  if (readFileSync(`${folder}openapi.json`, 'utf8') !== descriptionText()) {
    console.error('contract gate: openapi.json is stale. Run: node packages/contract/scripts/generate.ts')
    return 1
  }
  return 0
}

process.exitCode = main()
