/** The three servers of a local hub, started side by side: Kafka, PostgreSQL, Redis. */
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureJars, type Jars, STACK_JARS } from './jars.ts'
import { findJava } from './java.ts'
import { startKafka } from './kafka.ts'
import { inParallel } from './parallel.ts'
import { type PortName, requireFree } from './ports.ts'
import {
  DATABASE,
  DATABASE_USER,
  locatePostgres,
  startPostgres,
  removeOrphanedExternalDirs,
} from './postgres.ts'
import { isKafkaReady, isPostgresReady, isRedisReady } from './probe.ts'
import { UserError } from './user-error.ts'
import type { RunningProcess } from './processes.ts'
import { findRedis, startRedis } from './redis.ts'
import { makeService, type Service } from './service.ts'
import type { Settings } from './settings.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface Stack {
  readonly brokers: ReadonlyArray<string>
  /** The hub's database. */
  readonly databaseUrl: string
  /** A database from which others can be created. The same as `databaseUrl` where that was configured. */
  readonly adminDatabaseUrl: string
  readonly redisUrl: string
  /** What was started here; a server that was configured is missing. */
  readonly services: ReadonlyArray<Service>
  /** Ends what was started here and waits until it is gone. Safe to repeat. */
  readonly stop: () => Promise<void>
}

/** A line for the person who waits. */
export type ReportProgress = (line: string) => void

/**
 * Cold starts on a loaded machine with two cores took 12 s; a disk that must replay a log after a crash is slower.
 * A minute says that something is wrong.
 */
const READY_WITHIN_MS = 60_000

/** Kafka's own shutdown takes a second, and the first one 4 s more for its class archive; a loaded machine is slower. */
const END_WITHIN_MS = 30_000

/** Where a data folder keeps logs and pid files. */
export const logDir = (dataDir: string): string => join(dataDir, 'logs')
export const runDir = (dataDir: string): string => join(dataDir, 'run')

/** Makes the data folder. Others may pass through: PostgreSQL does as another user. Secrets are guarded one by one. */
export const prepareDataDir = (dataDir: string): void => {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o755 })
    mkdirSync(logDir(dataDir), { recursive: true })
    mkdirSync(runDir(dataDir), { recursive: true })
  } catch (error) {
    throw new UserError(
      `The data folder ${dataDir} cannot be written (${error instanceof Error ? error.message : String(error)}): name another with HUB_DATA_DIR.`,
    )
  }
}

const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Where the database lies outside the data folder, the two must not drift apart: one without the other would be a
 * hub that has forgotten half of what it did. A mark on both sides notices; what is left is then started afresh.
 */
export const discardUnmatchedData = (dataDir: string, report: ReportProgress): void => {
  removeOrphanedExternalDirs()
  const place = locatePostgres(dataDir, isRoot())
  if (place.externalDir === undefined || place.dir.startsWith(dataDir)) return
  const inner = join(dataDir, 'database-mark')
  const outer = join(place.externalDir, 'database-mark')
  const read = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : '')
  if (read(inner) !== '' && read(inner) === read(outer)) return
  if (read(inner) !== '') report('the database of this data folder is gone: starting afresh')
  for (const part of ['kafka', 'redis', 'apps', 'secrets.json']) {
    rmSync(join(dataDir, part), { recursive: true, force: true })
  }
  rmSync(place.externalDir, { recursive: true, force: true })
  const mark = randomUUID()
  mkdirSync(place.externalDir, { mode: 0o755 })
  chmodSync(place.externalDir, 0o755)
  writeFileSync(outer, mark)
  writeFileSync(inner, mark)
}

/** Where PostgreSQL's cluster of a data folder lies. */
export const databaseFolder = (dataDir: string): string => locatePostgres(dataDir, isRoot()).dir

/** Removes a data folder and what lies outside of it. Nothing may run on it any more. */
export const removeData = (dataDir: string): void => {
  const { externalDir } = locatePostgres(dataDir, isRoot())
  if (externalDir !== undefined) rmSync(externalDir, { recursive: true, force: true })
  rmSync(dataDir, { recursive: true, force: true })
}

/** The ports that will be listened on with these settings. */
export const stackPorts = (settings: Settings): ReadonlyArray<PortName> => [
  ...(settings.kafkaBrokers === undefined ? (['kafka', 'kafkaController'] as const) : []),
  ...(settings.databaseUrl === undefined ? (['postgres'] as const) : []),
  ...(settings.redisUrl === undefined ? (['redis'] as const) : []),
]

const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`

/**
 * Starts what is not configured, in parallel, and waits until all of it answers. Fails with a `UserError` and leaves
 * nothing running. The caller holds the data folder (see `lockDataDir`).
 */
export const startStack = async (
  settings: Settings,
  environment: Environment,
  report: ReportProgress,
  options: {
    /** Called as each server answers. */
    readonly onReady?: (server: string, addresses: Pick<Stack, 'brokers' | 'databaseUrl'>) => void
    /** Aborted: what was started ends again, and the start fails. */
    readonly signal?: AbortSignal
  } = {},
): Promise<Stack> => {
  const { dataDir, ports } = settings
  prepareDataDir(dataDir)
  await requireFree(ports, stackPorts(settings))

  const failed = new AbortController()
  const interrupted = AbortSignal.any([
    failed.signal,
    ...(options.signal === undefined ? [] : [options.signal]),
  ])

  // Fetched once, and only when something asks: Kafka always does, Redis where none is installed.
  let fetching: Promise<Jars> | null = null
  const jars = (): Promise<Jars> =>
    (fetching ??= ensureJars(STACK_JARS, settings.cacheDir, environment, report, interrupted))

  const service = (
    name: string,
    title: string,
    port: number,
    answers: (port: number) => Promise<boolean>,
    launch: (log: string) => Promise<RunningProcess>,
  ): Service => {
    const log = join(logDir(dataDir), `${name}.log`)
    return makeService({
      name,
      title,
      log,
      launch: () => launch(log),
      answers: () => answers(port),
      readyWithinMs: READY_WITHIN_MS,
      endWithinMs: END_WITHIN_MS,
    })
  }

  const local = (database: string): string =>
    `postgres://${DATABASE_USER}@127.0.0.1:${ports.postgres}/${database}`
  const databaseUrl = settings.databaseUrl ?? local(DATABASE)
  const brokers = settings.kafkaBrokers ?? [`127.0.0.1:${ports.kafka}`]
  const services: Array<Service> = []
  if (settings.databaseUrl === undefined) {
    const place = locatePostgres(dataDir, isRoot())
    services.push(
      service('postgres', 'PostgreSQL', ports.postgres, isPostgresReady, (log) =>
        startPostgres({ place, port: ports.postgres, log, runDir: runDir(dataDir) }),
      ),
    )
  }
  if (settings.kafkaBrokers === undefined) {
    services.push(
      service('kafka', 'Kafka', ports.kafka, isKafkaReady, async (log) =>
        startKafka({
          java: await findJava(environment),
          jars: await jars(),
          dir: join(dataDir, 'kafka'),
          port: ports.kafka,
          controllerPort: ports.kafkaController,
          log,
          runDir: runDir(dataDir),
        }),
      ),
    )
  }
  if (settings.redisUrl === undefined) {
    services.push(
      service('redis', 'Redis', ports.redis, isRedisReady, async (log) =>
        startRedis({
          command: await findRedis(environment, jars),
          dir: join(dataDir, 'redis'),
          port: ports.redis,
          log,
          runDir: runDir(dataDir),
        }),
      ),
    )
  }

  const stop = (): Promise<void> => inParallel(services.map((one) => one.end()))
  // What runs already ends at once; what is being launched at this moment is ended below.
  interrupted.addEventListener('abort', () => void stop())
  const began = performance.now()
  try {
    await inParallel(
      services.map(async (one) => {
        await one.start()
        report(`${one.title} answers after ${seconds(began)}`)
        options.onReady?.(one.name, { brokers, databaseUrl })
      }),
      () => failed.abort(),
    )
    if (options.signal?.aborted === true) throw new UserError('The start was interrupted.')
  } catch (error) {
    await stop()
    throw error
  }
  return {
    brokers,
    databaseUrl,
    adminDatabaseUrl: settings.databaseUrl ?? local('postgres'),
    redisUrl: settings.redisUrl ?? `redis://127.0.0.1:${ports.redis}`,
    services,
    stop,
  }
}
