/**
 * Programs that are not ours judge what the hub sends, where that takes too long for `npm test`.
 *
 *   npm run interop -- <name>    runs one judge; without a name, the command lists them
 *
 * A judge throws if it finds a fault. If this machine cannot run it, it says why.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { judgeGosmpp } from './gosmpp.ts'
import { judgeOtelCollector } from './otel-collector.ts'
import { judgePythonTypes } from './python-types.ts'
import { judgeStandardWebhooks } from './standard-webhooks.ts'

const JUDGES: Readonly<Record<string, () => Promise<void>>> = {
  gosmpp: judgeGosmpp,
  'otel-collector': judgeOtelCollector,
  'python-types': judgePythonTypes,
  'standard-webhooks': judgeStandardWebhooks,
}

const [name = ''] = process.argv.slice(2)
const judge = Object.hasOwn(JUDGES, name) ? JUDGES[name] : undefined
if (judge === undefined) {
  console.error(`usage: npm run interop -- <name>\nnames: ${Object.keys(JUDGES).join(', ')}`)
  process.exitCode = 1
} else {
  const folder = mkdtempSync(join(tmpdir(), 'hub-interop-'))
  process.env['HUB_TEST_DIR'] = folder
  try {
    await judge()
  } finally {
    rmSync(folder, { recursive: true })
  }
}
