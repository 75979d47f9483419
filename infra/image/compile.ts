/**
 * Fills the compile cache of the image (`NODE_COMPILE_CACHE`), while it is built: starts each program once, with the flags it will run with,
 * since they are a part of the key. Without settings an app loads everything that it is made of, says what is missing, and ends.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const HUB = join(import.meta.dirname, '../..')
const CACHE = join(HUB, '.compiled')

/** The same as in the manifests; a test holds them together. */
const PROGRAMS: ReadonlyArray<{
  readonly name: string
  readonly words: ReadonlyArray<string>
  readonly ends: number
}> = [
  { name: 'command-api', words: ['--max-semi-space-size=32', 'apps/command-api/src/main.ts'], ends: 1 },
  {
    name: 'dispatcher',
    words: ['--max-semi-space-size=8', '--max-old-space-size=768', 'apps/dispatcher/src/main.ts'],
    ends: 1,
  },
  { name: 'projector', words: ['--max-semi-space-size=16', 'apps/projector/src/main.ts'], ends: 1 },
  {
    name: 'webhook-fanout',
    words: [
      '--max-semi-space-size=4',
      '--initial-old-space-size=128',
      '--no-parallel-scavenge',
      'apps/webhook-fanout/src/main.ts',
    ],
    ends: 1,
  },
  { name: 'hubctl', words: ['apps/hubctl/src/main.ts', '--help'], ends: 0 },
]

/** Loading takes a second or two; what takes a minute hangs. */
const WITHIN_MS = 60_000

for (const { ends, name, words } of PROGRAMS) {
  const { error, status, stderr, stdout } = spawnSync(process.execPath, words, {
    cwd: HUB,
    env: { NODE_COMPILE_CACHE: CACHE },
    timeout: WITHIN_MS,
    encoding: 'utf8',
  })
  const isAsExpected = status === ends && !/ERR_MODULE_NOT_FOUND|SyntaxError/u.test(stderr)
  if (!isAsExpected) {
    console.error(`${name} does not start (exit code ${status}): ${error?.message ?? ''}\n${stdout}${stderr}`)
    process.exitCode = 1
  }
}
const compiled = readdirSync(CACHE, { recursive: true, withFileTypes: true })
if (!compiled.some((entry) => entry.isFile())) {
  console.error('Nothing was compiled.')
  process.exitCode = 1
}
// Node writes them for their owner alone, and in the image they belong to root.
for (const entry of compiled) chmodSync(join(entry.parentPath, entry.name), entry.isFile() ? 0o644 : 0o755)
