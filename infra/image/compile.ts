/**
 * Fills the compile cache of the image (`NODE_COMPILE_CACHE`) while Docker builds it. It starts
 * each program of the current folder once, with its production flags, because they are part of the cache key.
 * Without settings, an app loads all of its modules, reports the missing settings, and exits.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const CACHE = join(process.cwd(), '.compiled')

/** The same commands as in the Kubernetes manifests; a test compares them. */
const PROGRAMS: ReadonlyArray<{
  readonly name: string
  readonly args: ReadonlyArray<string>
  readonly exitCode: number
}> = [
  { name: 'command-api', args: ['--max-semi-space-size=32', 'programs/command-api.mjs'], exitCode: 1 },
  {
    name: 'dispatcher',
    args: ['--max-semi-space-size=8', '--max-old-space-size=768', 'programs/dispatcher.mjs'],
    exitCode: 1,
  },
  { name: 'projector', args: ['--max-semi-space-size=16', 'programs/projector.mjs'], exitCode: 1 },
  {
    name: 'webhook-fanout',
    args: [
      '--max-semi-space-size=4',
      '--initial-old-space-size=128',
      '--no-parallel-scavenge',
      'programs/webhook-fanout.mjs',
    ],
    exitCode: 1,
  },
  {
    name: 'operations-api',
    args: ['--max-semi-space-size=8', 'programs/operations-api.mjs'],
    exitCode: 1,
  },
  { name: 'hubctl', args: ['programs/hubctl.mjs', '--help'], exitCode: 0 },
]

/** A program loads within two seconds. One that needs a minute hangs. */
const TIMEOUT_MS = 60_000

/**
 * V8 seeds its hashes with a random number, which changes what it writes. With this seed, each build writes the same
 * files. The seed is no part of the cache key: programs read the cache and have random seeds.
 */
const SEED = '--random-seed=1'

for (const { args, exitCode, name } of PROGRAMS) {
  const { error, status, stderr, stdout } = spawnSync(process.execPath, [SEED, ...args], {
    env: { NODE_COMPILE_CACHE: CACHE },
    timeout: TIMEOUT_MS,
    encoding: 'utf8',
  })
  if (status !== exitCode || /ERR_MODULE_NOT_FOUND|SyntaxError/u.test(stderr)) {
    console.error(`${name} does not start (exit code ${status}): ${error?.message ?? ''}\n${stdout}${stderr}`)
    process.exitCode = 1
  }
}
const compiled = readdirSync(CACHE, { recursive: true, withFileTypes: true })
if (!compiled.some((entry) => entry.isFile())) {
  console.error('The compile cache is empty: check NODE_COMPILE_CACHE.')
  process.exitCode = 1
}
// Node makes the files readable for their owner only, but in the image they belong to root.
for (const entry of compiled) chmodSync(join(entry.parentPath, entry.name), entry.isFile() ? 0o644 : 0o755)
