/**
 * `npm test`: runs all tests on its own servers, and prints one line with the counts at the end.
 *
 *   npm test [-- <vitest filter> …]        all
 *   npm run test:unit | test:simulation | test:int | test:e2e
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
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
  WITHOUT_FSYNC,
} from '@hub/local-stack'
import {
  type Counts,
  countsOf,
  type Failure,
  failuresOf,
  type FileTime,
  fileTimesOf,
  listFailures,
  listSlowest,
  NOTHING,
  summarise,
  total,
} from './test-counts.ts'

type Kind = 'unit' | 'simulation' | 'int' | 'e2e'

/**
 * The kinds in the order of their runs. Integration tests mostly wait, so the simulation runs beside them, with
 * the time of the processor that they leave.
 */
const STAGES: ReadonlyArray<ReadonlyArray<Kind>> = [['unit'], ['int', 'simulation'], ['e2e']]
const KINDS = STAGES.flat()
/** The lowest priority. It delays no other process, so it changes no result of a test that runs beside it. */
const BACKGROUND: ReadonlyArray<Kind> = ['simulation']

/** The project names in vitest.config.ts. The projects of a kind run at the same time. */
const PROJECTS = {
  unit: ['unit'],
  simulation: ['simulation'],
  int: ['int'],
  e2e: ['e2e-waiting', 'e2e-loading'],
} as const satisfies Record<Kind, ReadonlyArray<string>>

/** End-to-end tests start hubs with servers of their own. */
const needsServers = (kind: Kind): boolean => kind === 'int'

/** The time that the servers of killed test hubs get to end. */
const SWEEP_WITHIN_MS = 10_000

interface Runner {
  readonly dir: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const children = new Set<ReturnType<typeof spawn>>()

interface Run {
  readonly counts: Counts
  readonly failures: ReadonlyArray<Failure>
  readonly times: ReadonlyArray<FileTime>
}

interface ProjectRun {
  /** Its name in vitest.config.ts. */
  readonly project: string
  readonly filters: ReadonlyArray<string>
  /** Whether its output is shown at once. Otherwise it is shown when the project has ended. */
  readonly isLive: boolean
  /** With the lowest priority. */
  readonly isBackground: boolean
}

/** Runs one project of vitest. */
const runProject = async (
  { filters, isBackground, isLive, project }: ProjectRun,
  runner: Runner,
): Promise<Run> => {
  const report = join(runner.dir, `${project}.json`)
  const [command, ...first] = [...(isBackground ? ['nice', '-n', '19'] : []), process.execPath]
  const child = spawn(
    command!,
    [
      ...first,
      join(ROOT, 'node_modules/vitest/vitest.mjs'),
      'run',
      '--project',
      project,
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      // With a filter a project may have no tests. The end of the run checks that any test ran.
      '--passWithNoTests',
      ...filters,
    ],
    {
      cwd: ROOT,
      stdio: isLive ? 'inherit' : ['ignore', 'pipe', 'pipe'],
      env: {
        ...runner.environment,
        ...(process.stdout.isTTY && !isLive ? { FORCE_COLOR: '1' } : {}),
      } as NodeJS.ProcessEnv,
    },
  )
  children.add(child)
  const output: Array<Buffer> = []
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => output.push(chunk))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  children.delete(child)
  if (!isLive) process.stdout.write(Buffer.concat(output))
  let written: string | null = null
  try {
    written = readFileSync(report, 'utf8')
  } catch {
    // vitest ended without a report. That counts as a failure.
  }
  return {
    counts: countsOf(written, code),
    failures: failuresOf(written, ROOT),
    times: fileTimesOf(written, ROOT),
  }
}

const combine = (runs: ReadonlyArray<Run>): Run => ({
  counts: total(runs.map(({ counts }) => counts)),
  failures: runs.flatMap(({ failures }) => failures),
  times: runs.flatMap(({ times }) => times),
})

/** Runs one kind of test. No failed test runs again: a test that fails once in a while has a cause. */
const runKind = async (
  kind: Kind,
  runner: Runner,
  filters: ReadonlyArray<string>,
  isBackground: boolean,
): Promise<Run> =>
  combine(
    await Promise.all(
      PROJECTS[kind].map((project, index) =>
        runProject({ project, filters, isLive: index === 0 && !isBackground, isBackground }, runner),
      ),
    ),
  )

/** The data folders of the servers of a test: its folder, or folders in it. */
const dataDirsIn = (folder: string): ReadonlyArray<string> =>
  [folder, ...readdirSync(folder).map((name) => join(folder, name))].filter((one) =>
    existsSync(join(one, 'run')),
  )

/** Removes the mounts that killed tests left below a folder. Only Linux has tests that mount. */
const unmountBelow = (dir: string): void => {
  if (!existsSync('/proc/mounts')) return
  const points = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
  for (const point of points) if (point.startsWith(`${dir}/`)) spawnSync('umount', ['--lazy', point])
}

const main = async (): Promise<number> => {
  const words = process.argv.slice(2)
  const asked = KINDS.filter((kind) => kind === words[0])
  const kinds: ReadonlyArray<Kind> = asked.length > 0 ? asked : KINDS
  const filters = asked.length > 0 ? words.slice(1) : words

  const dir = mkdtempSync(join(tmpdir(), 'sms-delivery-hub-test-'))
  // If the tests run as root, PostgreSQL runs as another user.
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
      // Never the servers of the development settings: tests create and drop data.
      kafkaBrokers: undefined,
      databaseUrl: undefined,
      redisUrl: undefined,
      dataDir,
      ports: portsAt(await freePortBase()),
    }
    await lockDataDir(settings, (line) => console.log(line))
    return startStack(settings, process.env, (line) => console.log(line), {
      signal: ending.signal,
      postgres: WITHOUT_FSYNC,
    })
  }

  const runs: Array<Run> = []
  try {
    await mkdir(dataDir, { recursive: true })
    // The servers start during the tests without servers.
    const servers = kinds.some(needsServers) ? startServers() : null
    servers?.catch(() => {})
    for (const stage of STAGES) {
      const now = stage.filter((kind) => kinds.includes(kind))
      if (interrupted || now.length === 0) continue
      if (now.some(needsServers)) stack = (await servers) ?? null
      const environment = {
        // As the apps of a local hub: the compiled sources are shared.
        NODE_COMPILE_CACHE: join(readSettings(process.env).cacheDir, 'compiled'),
        ...process.env,
        // The parent of the data folders of test hubs, so that they can be cleaned up after a
        // failed test.
        HUB_TEST_DIR: dir,
        ...(stack === null
          ? {}
          : {
              HUB_TEST_KAFKA: stack.brokers.join(','),
              HUB_TEST_DATABASE_URL: stack.adminDatabaseUrl,
              HUB_TEST_REDIS_URL: stack.redisUrl,
            }),
      }
      console.log(`\n── ${now.join(' and ')} tests`)
      runs.push(
        ...(await Promise.all(
          now.map((kind) =>
            runKind(kind, { dir, environment }, filters, now.length > 1 && BACKGROUND.includes(kind)),
          ),
        )),
      )
      await stack?.stop()
      stack = null
    }
  } catch (error) {
    const log = error instanceof UserError ? error.log : undefined
    console.error(error instanceof UserError ? error.message : error)
    if (log !== undefined) console.error(tail(log, 20).join('\n'))
    runs.push({ counts: { ...NOTHING, failed: 1 }, failures: [], times: [] })
  } finally {
    ending.abort()
    await stack?.stop()
    // Ends the processes of killed tests, and removes all folders.
    const names = readdirSync(dir).filter((name) => !name.endsWith('.json'))
    const left = names.map((name) => join(dir, name)).filter((folder) => folder !== dataDir)
    await Promise.all(left.flatMap(dataDirsIn).map((folder) => stopProcessesOf(folder, SWEEP_WITHIN_MS)))
    unmountBelow(dir)
    for (const name of names) removeData(join(dir, name))
    rmSync(dir, { recursive: true, force: true })
  }
  const { counts, failures, times } = combine(runs)
  if (interrupted) console.log('Interrupted.')
  if (counts.passed + counts.failed === 0) console.log('No test ran.')
  if (times.length > 0) console.log(`\n${listSlowest(times)}`)
  if (failures.length > 0) console.log(`\n${listFailures(failures)}`)
  console.log(`\n${summarise(counts)}`)
  return interrupted || counts.failed > 0 || counts.passed === 0 ? 1 : 0
}

process.exitCode = await main()
