/** Starts the three servers of a local hub in parallel: Kafka, PostgreSQL and Redis. */
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureJars, type Jars, requireMaven, STACK_JARS } from './jars.ts'
import { findJava } from './java.ts'
import { startKafka } from './kafka.ts'
import { inParallel } from './parallel.ts'
import { findProgram } from './path.ts'
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
import type { Environment, Settings } from './settings.ts'

export interface Stack {
  readonly brokers: ReadonlyArray<string>
  /** The hub's database. */
  readonly databaseUrl: string
  /** A database for creating other databases. Equals `databaseUrl` if that was configured. */
  readonly adminDatabaseUrl: string
  readonly redisUrl: string
  /** The servers that this stack started, without configured ones. */
  readonly services: ReadonlyArray<Service>
  /** Stops the started servers and waits until they have ended. Safe to repeat. */
  readonly stop: () => Promise<void>
}

/** Prints a line of progress for the user. */
export type ReportProgress = (line: string) => void

/**
 * Cold starts took 12 s on a loaded machine, and more than a minute on one whose memory was slow. A server that ends
 * is noticed at once, so this only ends a wait for one that hangs.
 */
const READY_WITHIN_MS = 180_000

/** Kafka stops within 1 s, the first time 4 s later (class archive). Loaded machines are slower. */
const END_WITHIN_MS = 30_000

/** The folders of a data folder for logs and pid files. */
export const logDir = (dataDir: string): string => join(dataDir, 'logs')
export const runDir = (dataDir: string): string => join(dataDir, 'run')

/**
 * Creates the data folder. Other users may enter it, because PostgreSQL may run as another user.
 * The mode of each secret file protects the secrets.
 */
export const prepareDataDir = (dataDir: string): void => {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o755 })
    mkdirSync(logDir(dataDir), { recursive: true })
    mkdirSync(runDir(dataDir), { recursive: true })
  } catch (error) {
    throw new UserError(
      `The data folder ${dataDir} cannot be written (${error instanceof Error ? error.message : String(error)}): set HUB_DATA_DIR to another one.`,
    )
  }
}

const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Deletes the data of a data folder if its database is outside of it and one of the two is missing
 * or was replaced. Otherwise, Kafka and PostgreSQL would contradict each other. Both folders
 * contain the same random mark, which shows that they belong together.
 */
export const discardUnmatchedData = (dataDir: string, report: ReportProgress): void => {
  removeOrphanedExternalDirs()
  const { dir, externalDir } = locatePostgres(dataDir, isRoot())
  if (externalDir === undefined || dir.startsWith(dataDir)) return
  const inner = join(dataDir, 'database-mark')
  const outer = join(externalDir, 'database-mark')
  const read = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : '')
  if (read(inner) !== '' && read(inner) === read(outer)) return
  if (read(inner) !== '') report('the database of this data folder is missing: starting with empty data')
  for (const part of ['kafka', 'redis', 'apps', 'secrets.json']) {
    rmSync(join(dataDir, part), { recursive: true, force: true })
  }
  rmSync(externalDir, { recursive: true, force: true })
  const mark = randomUUID()
  mkdirSync(externalDir, { mode: 0o755 })
  chmodSync(externalDir, 0o755)
  writeFileSync(outer, mark)
  writeFileSync(inner, mark)
}

/** The folder of the PostgreSQL cluster of a data folder. */
export const databaseFolder = (dataDir: string): string => locatePostgres(dataDir, isRoot()).dir

/** Deletes a data folder and its folder outside of it. All of its processes must have stopped. */
export const removeData = (dataDir: string): void => {
  const { externalDir } = locatePostgres(dataDir, isRoot())
  if (externalDir !== undefined) rmSync(externalDir, { recursive: true, force: true })
  rmSync(dataDir, { recursive: true, force: true })
}

/** The ports on which the stack listens with these settings. */
export const stackPorts = (settings: Settings): ReadonlyArray<PortName> => [
  ...(settings.kafkaBrokers === undefined ? (['kafka', 'kafkaController'] as const) : []),
  ...(settings.databaseUrl === undefined ? (['postgres'] as const) : []),
  ...(settings.redisUrl === undefined ? (['redis'] as const) : []),
]

const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`

/**
 * Starts the servers that are not configured, and waits until all are ready. On failure it stops
 * them and fails with a `UserError`. The caller must hold the lock of the data folder
 * (`lockDataDir`).
 */
export const startStack = async (
  settings: Settings,
  environment: Environment,
  report: ReportProgress,
  options: {
    /** Called when a server is ready, with its service name. */
    readonly onReady?: (server: string, addresses: Pick<Stack, 'brokers' | 'databaseUrl'>) => void
    /** If aborted, the servers stop and the start fails. */
    readonly signal?: AbortSignal
    /** Further settings of PostgreSQL. */
    readonly postgres?: Readonly<Record<string, string>>
  } = {},
): Promise<Stack> => {
  const { dataDir, ports } = settings
  // Before anything is created or started.
  const startsKafka = settings.kafkaBrokers === undefined
  const fetchesRedis =
    settings.redisUrl === undefined && findProgram('redis-server', environment['PATH']) === null
  if (startsKafka) await findJava(environment)
  if (startsKafka || fetchesRedis) await requireMaven(STACK_JARS, settings.cacheDir, environment)
  prepareDataDir(dataDir)
  await requireFree(ports, stackPorts(settings))

  const failed = new AbortController()
  const interrupted = AbortSignal.any([
    failed.signal,
    ...(options.signal === undefined ? [] : [options.signal]),
  ])

  // Fetched once, when needed: always for Kafka, for Redis only if it is not installed.
  let fetching: Promise<Jars> | null = null
  const jars = (): Promise<Jars> =>
    (fetching ??= ensureJars(STACK_JARS, settings.cacheDir, environment, report, interrupted))

  const service = (
    name: string,
    title: string,
    port: number,
    isReady: (port: number) => Promise<boolean>,
    launch: (log: string) => Promise<RunningProcess>,
  ): Service => {
    const log = join(logDir(dataDir), `${name}.log`)
    return makeService({
      name,
      title,
      log,
      launch: () => launch(log),
      isReady: () => isReady(port),
      readyWithinMs: READY_WITHIN_MS,
      endWithinMs: END_WITHIN_MS,
    })
  }

  const localUrl = (database: string): string =>
    `postgres://${DATABASE_USER}@127.0.0.1:${ports.postgres}/${database}`
  const databaseUrl = settings.databaseUrl ?? localUrl(DATABASE)
  const brokers = settings.kafkaBrokers ?? [`127.0.0.1:${ports.kafka}`]
  const services: Array<Service> = []
  if (settings.databaseUrl === undefined) {
    const location = locatePostgres(dataDir, isRoot())
    services.push(
      service('postgres', 'PostgreSQL', ports.postgres, isPostgresReady, (log) =>
        startPostgres({
          location,
          port: ports.postgres,
          log,
          runDir: runDir(dataDir),
          cacheDir: settings.cacheDir,
          ...(options.postgres === undefined ? {} : { settings: options.postgres }),
        }),
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
  // This stops the running servers at once. The `catch` below stops servers that are still
  // starting.
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
    adminDatabaseUrl: settings.databaseUrl ?? localUrl('postgres'),
    redisUrl: settings.redisUrl ?? `redis://127.0.0.1:${ports.redis}`,
    services,
    stop,
  }
}
