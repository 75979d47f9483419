/**
 * `npm test`: everything that tests, on servers of its own, and one line of numbers at the end.
 *
 *   npm test [-- <vitest filter> …]        all
 *   npm run test:unit | test:int | test:e2e
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { chmod, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  lockDataDir,
  freePortBase,
  portsAt,
  UserError,
  readSettings,
  stopProcessesOf,
  removeData,
  ROOT,
  type Stack,
  startStack,
  tail,
} from '@hub/local-stack'
import { type Counts, countsOf, NOTHING, summarise, total } from './test-counts.ts'

const KINDS = ['unit', 'int', 'e2e'] as const
type Kind = (typeof KINDS)[number]

/** What each is called in vitest.config.ts. */
const PROJECTS = {
  unit: ['unit'],
  int: ['int'],
  e2e: ['e2e-pairs', 'e2e'],
} as const satisfies Record<Kind, ReadonlyArray<string>>

/** Servers of killed test hubs get this long to end. */
const SWEEP_WITHIN_MS = 10_000

interface Runner {
  readonly dir: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const children = new Set<ReturnType<typeof spawn>>()

/** Runs one kind of test; its output goes straight through. */
const runKind = async (kind: Kind, runner: Runner, filters: ReadonlyArray<string>): Promise<Counts> => {
  console.log(`\n── ${kind} tests`)
  const report = join(runner.dir, `${kind}.json`)
  const child = spawn(
    process.execPath,
    [
      join(ROOT, 'node_modules/vitest/vitest.mjs'),
      'run',
      ...PROJECTS[kind].flatMap((project) => ['--project', project]),
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      // With a filter, a kind may well have none; whether any test ran at all is judged at the end.
      '--passWithNoTests',
      ...filters,
    ],
    { cwd: ROOT, stdio: 'inherit', env: runner.environment as NodeJS.ProcessEnv },
  )
  children.add(child)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  children.delete(child)
  let written: string | null = null
  try {
    written = readFileSync(report, 'utf8')
  } catch {
    // It ended before it could report; that counts as a failure.
  }
  return countsOf(written, code)
}

const main = async (): Promise<number> => {
  const words = process.argv.slice(2)
  const asked = KINDS.filter((kind) => kind === words[0])
  const kinds: ReadonlyArray<Kind> = asked.length > 0 ? asked : KINDS
  const filters = asked.length > 0 ? words.slice(1) : words

  const dir = mkdtempSync(join(tmpdir(), 'sms-delivery-hub-test-'))
  // PostgreSQL runs as another user where the tests run as root.
  await chmod(dir, 0o755)
  const dataDir = join(dir, 'stack')
  const ending = new AbortController()
  let stack: Stack | null = null
  let interrupted = false
  const interrupt = (): void => {
    interrupted = true
    ending.abort()
    for (const child of children) child.kill('SIGTERM')
  }
  process.on('SIGINT', interrupt)
  process.on('SIGTERM', interrupt)
  process.on('SIGHUP', interrupt)
  if (process.connected) {
    process.once('disconnect', interrupt)
    process.channel?.unref()
  }

  const startServers = async (): Promise<Stack> => {
    const settings = {
      ...readSettings(process.env),
      // Never what happens to be configured for development: tests create and drop what they like.
      kafkaBrokers: undefined,
      databaseUrl: undefined,
      redisUrl: undefined,
      dataDir,
      ports: portsAt(await freePortBase()),
    }
    await lockDataDir(settings, (line) => console.log(line))
    return startStack(settings, process.env, (line) => console.log(line), { signal: ending.signal })
  }

  const counts: Array<Counts> = []
  try {
    await mkdir(dataDir, { recursive: true })
    // The servers start while the unit tests run.
    const servers = kinds.some((kind) => kind !== 'unit') ? startServers() : null
    servers?.catch(() => {})
    for (const kind of kinds) {
      if (interrupted) break
      if (kind !== 'unit') stack = (await servers) ?? null
      const environment = {
        ...process.env,
        // Data folders of hubs that tests start lie here, so that whatever becomes of a test, they are found.
        HUB_TEST_DIR: dir,
        ...(stack === null
          ? {}
          : {
              HUB_TEST_KAFKA: stack.brokers.join(','),
              HUB_TEST_DATABASE_URL: stack.adminDatabaseUrl,
              HUB_TEST_REDIS_URL: stack.redisUrl,
            }),
      }
      counts.push(await runKind(kind, { dir, environment }, filters))
    }
  } catch (error) {
    const log = error instanceof UserError ? error.log : undefined
    console.error(error instanceof UserError ? error.message : error)
    if (log !== undefined) console.error(tail(log, 20).join('\n'))
    counts.push({ ...NOTHING, failed: 1 })
  } finally {
    ending.abort()
    await stack?.stop()
    // What a killed test left running, and the folders of all.
    for (const name of readdirSync(dir)) {
      const left = join(dir, name)
      if (name.endsWith('.json')) continue
      if (left !== dataDir) await stopProcessesOf(left, SWEEP_WITHIN_MS)
      removeData(left)
    }
    rmSync(dir, { recursive: true, force: true })
  }
  const sum = total(counts)
  if (interrupted) console.log('Interrupted.')
  if (sum.passed + sum.failed === 0) console.log('No test ran.')
  console.log(`\n${summarise(sum)}`)
  return interrupted || sum.failed > 0 || sum.passed === 0 ? 1 : 0
}

process.exitCode = await main()
