/**
 * Programs that are not ours judge the hub, where that takes too long for `npm test`.
 *
 *   npm run interop -- <name>    runs one judge; without a name, the command lists them
 *   npm run interop -- postgres [<version> …]    runs tests on these versions of a server; default: all
 *
 * A judge throws if it finds a fault. If this machine cannot run it, it says why.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { judgesInTests } from './judges-in-tests.ts'
import { judgeGosmpp } from './gosmpp.ts'
import { judgeOtelCollector } from './otel-collector.ts'
import { judgePythonTypes } from './python-types.ts'
import { judgeKafkaVersions, judgePostgres } from './server-versions.ts'
import { judgeStandardWebhooks } from './standard-webhooks.ts'

const JUDGES: Readonly<Record<string, (args: ReadonlyArray<string>) => Promise<void>>> = {
  ...judgesInTests,
  gosmpp: judgeGosmpp,
  'kafka-versions': judgeKafkaVersions,
  'otel-collector': judgeOtelCollector,
  postgres: judgePostgres,
  'python-types': judgePythonTypes,
  'standard-webhooks': judgeStandardWebhooks,
}

const [name = '', ...args] = process.argv.slice(2)
const judge = Object.hasOwn(JUDGES, name) ? JUDGES[name] : undefined
if (judge === undefined) {
  console.error(`usage: npm run interop -- <name>\nnames: ${Object.keys(JUDGES).join(', ')}`)
  process.exitCode = 1
} else {
  const folder = mkdtempSync(join(tmpdir(), 'hub-interop-'))
  process.env['HUB_TEST_DIR'] = folder
  try {
    await judge(args)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
