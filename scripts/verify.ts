/**
 * `npm run verify`: runs the static checks. All checks run, also after a failure. The exit code is
 * non-zero if any fails.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const tool = (name: string): string => join(ROOT, 'node_modules/.bin', name)

const CHECKS: ReadonlyArray<{
  readonly name: string
  readonly command: string
  readonly args: ReadonlyArray<string>
}> = [
  // Checks again only what has changed since the last run, which takes a tenth of the time.
  {
    name: 'types',
    command: tool('tsc'),
    args: [
      '--noEmit',
      '--incremental',
      '--tsBuildInfoFile',
      join(ROOT, 'node_modules/.cache/types.tsbuildinfo'),
      '--project',
      ROOT,
    ],
  },
  // The console runs in a browser, with other globals than Node.
  { name: 'types of the console', command: tool('tsc'), args: ['--project', join(ROOT, 'apps/console')] },
  // This includes the import rule (.oxlintrc.json).
  { name: 'lint', command: tool('oxlint'), args: ['--type-aware', '--max-warnings', '0'] },
  { name: 'format', command: tool('oxfmt'), args: ['--check', '.'] },
  {
    name: 'contract gate',
    command: process.execPath,
    args: [join(ROOT, 'tools/contract-gate/main.ts')],
  },
  {
    name: 'descriptions of the APIs',
    command: process.execPath,
    args: [join(ROOT, 'tools/description-lint/main.ts')],
  },
  {
    name: 'contract rules',
    command: process.execPath,
    args: [join(ROOT, 'tools/contract-rules/main.ts')],
  },
  {
    name: 'types of the APIs',
    command: process.execPath,
    args: [join(ROOT, 'scripts/openapi-types.ts'), '--check'],
  },
  {
    name: 'types of the Python client',
    command: process.execPath,
    args: [join(ROOT, 'scripts/python-types.ts'), '--check'],
  },
  {
    name: 'schema gate',
    command: process.execPath,
    args: [join(ROOT, 'packages/kafka/scripts/gate.ts')],
  },
  {
    name: 'migration gate',
    command: process.execPath,
    args: [join(ROOT, 'packages/store/scripts/gate.ts')],
  },
]

/** The longest check takes less than a minute, and ten on a busy machine. This only ends a check that hangs. */
const TIMEOUT_MS = 1_200_000

const run = (check: (typeof CHECKS)[number]): Promise<boolean> =>
  new Promise((resolve) => {
    const began = performance.now()
    const output: Array<string> = []
    const child = spawn(check.command, check.args, {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
    })
    child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString('utf8')))
    child.stderr.on('data', (chunk: Buffer) => output.push(chunk.toString('utf8')))
    const finish = (passed: boolean): void => {
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      console.log(`${passed ? 'passed' : 'FAILED'}  ${check.name} (${seconds} s)`)
      if (!passed) console.log(output.join(''))
      resolve(passed)
    }
    child.once('error', (error) => {
      output.push(error.message)
      finish(false)
    })
    child.once('close', (code, signal) => {
      if (signal !== null) output.push(`It was ended with ${signal}. The limit is ${TIMEOUT_MS / 1000} s.`)
      finish(code === 0)
    })
  })

const results = await Promise.all(CHECKS.map(run))
process.exitCode = results.every(Boolean) ? 0 : 1
