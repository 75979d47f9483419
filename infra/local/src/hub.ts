/** Starts a whole hub on one machine: the servers, the operator simulator and the apps. */
import { fork } from 'node:child_process'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import {
  ADMIN_PORTS,
  APP_NAMES,
  type AppContext,
  appEnvironment,
  appMain,
  type AppName,
  baseUrl,
  hubctlEnvironment,
  instanceEnvironment,
  type InstanceSettings,
  EXTRA_DISPATCHERS,
  type ExtraDispatcher,
  loginLink,
  nodeFlags,
  OPERATIONS_API,
  operationsEnvironment,
  operationsUrl,
  type ProgramName,
  SIMULATOR_FLAGS,
  operatorUrl,
  SECOND_COMMAND_API,
  secondBaseUrl,
  SIMULATOR,
  simulatorEnvironment,
} from './apps.ts'
import { bundleOf } from '../../bundle/bundle.ts'
import { ensureBundles } from './bundles.ts'
import { ensureConsole } from './console.ts'
import { lockDataDir } from './data-dir-lock.ts'
import { inParallel } from './parallel.ts'
import { type PortName, requireFree } from './ports.ts'
import { isHttpReady } from './probe.ts'
import type { PreparationMessage, PreparationRequest, PreparationTask } from './prepare-process.ts'
import { UserError } from './user-error.ts'
import { launch } from './processes.ts'
import { ensureSecrets, type Secrets } from './secrets.ts'
import { makeService, type Service } from './service.ts'
import { type Environment, ROOT, type Settings } from './settings.ts'
import { logDir, type ReportProgress, runDir, type Stack, stackPorts, startStack } from './stack.ts'

/** The content of `hub.json`. */
export interface HubDescription {
  readonly base_url: string
  /** The address of the second command-api, if there is one. */
  readonly second_base_url?: string
  readonly keys: { readonly test: string; readonly live: string }
  /** The keys of the second account. */
  readonly other_keys: { readonly test: string; readonly live: string }
  readonly kafka: { readonly brokers: ReadonlyArray<string> }
  readonly database_url: string
  readonly redis_url: string
  readonly schema_registry_url: string
  readonly operator_url: string
  /** The address of the operations API, if there is one. */
  readonly operations_url?: string
  /** The address of the console, which the operations API serves. */
  readonly console_url?: string
  /** A link that signs in to the console once, with all roles. */
  readonly console_login_url?: string
  readonly metrics_urls: Readonly<
    Record<AppName, string> & Partial<Record<ExtraDispatcher | typeof OPERATIONS_API, string>>
  >
  /** By process name: the supervisor, the started servers, the simulator, the apps. */
  readonly pids: Readonly<Record<string, number>>
}

interface HubOptions {
  readonly settings: Settings
  /** For all apps. The settings of the local hub override it. */
  readonly environment: Environment
  readonly report: ReportProgress
  /** Whether to restart processes that end unexpectedly. Tests that kill apps restart them. */
  readonly restart: boolean
  /** Starts a second command-api as well, at `second_base_url`. */
  readonly secondCommandApi?: boolean
  /** The number of dispatchers, 1 to 3. Default: 1. */
  readonly dispatchers?: number
  /**
   * The checkout of the apps, migrations and topics. Default: this one. The servers and the
   * simulator always come from this checkout.
   */
  readonly sources?: string
  /** Builds the console and starts operations-api as well. */
  readonly operations?: boolean
  /** `false`: live keys use the operator simulator of another hub, on the same ports. */
  readonly simulator?: boolean
  /** The apps to start now. Default: all. The caller can start the others later. */
  readonly apps?: ReadonlyArray<AppName>
  /** If aborted during the start, everything stops and the start fails. */
  readonly signal?: AbortSignal
}

export interface Hub {
  readonly describe: () => HubDescription
  /** All processes, in the order of the start. */
  readonly services: ReadonlyArray<Service>
  readonly stack: Stack
  /** Adds a further instance of an app. The caller starts it, and the hub stops it. */
  readonly addInstance: (app: AppName, settings: InstanceSettings) => Service
  /** Stops all processes and waits until they have ended. Safe to repeat. */
  readonly stop: () => Promise<void>
}

export const hubFile = (dataDir: string): string => join(dataDir, 'hub.json')

/** The settings of hubctl. It reads them from this file if its environment names no hub. */
const hubctlFile = (dataDir: string): string => join(dataDir, 'hubctl.env')

/** An environment file that shells and Node read in the same way. */
const envText = (environment: Environment): string =>
  Object.entries(environment)
    .map(([name, value = '']) => (value.includes("'") ? `${name}="${value}"\n` : `${name}='${value}'\n`))
    .join('')

/** An app starts within 3 s on an idle machine. Five apps on a loaded machine need longer, up to minutes. */
const APP_READY_WITHIN_MS = 180_000
/** command-api exits within 30 s of SIGTERM, the other apps within 10 s. */
const APP_END_WITHIN_MS = 32_000

/** The delay before a process is restarted. It doubles with each restart. */
const FIRST_RESTART_MS = 1_000
const LAST_RESTART_MS = 30_000
/** A process that ran this long counts as stable, so its next restart uses the first delay. */
const STABLE_AFTER_MS = 60_000

/** Enough for several instances of an app on one machine; production has 48. */
const DEFAULT_PARTITIONS = 6

/** Whoever can read `hub.json` can do everything with the local hub. */
const FIRST_LOGIN = { name: 'developer', roles: ['admin'] } as const

const HUB_PORTS: ReadonlyArray<PortName> = [
  'commandApi',
  'operatorCallback',
  ...APP_NAMES.map((name) => ADMIN_PORTS[name]),
]
const SIMULATOR_PORTS: ReadonlyArray<PortName> = ['operatorSimulator', 'operatorSmpp']

const SECOND_PORTS: ReadonlyArray<PortName> = ['secondCommandApi', 'secondCommandApiAdmin']
const OPERATIONS_PORTS: ReadonlyArray<PortName> = ['operationsApi', 'operationsApiAdmin']

const writeSecretFile = (path: string, content: string): void => {
  writeFileSync(`${path}.new`, content, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

/** A Node program of this repository as a service. */
const makeNodeService = (
  context: AppContext,
  name: string,
  title: string,
  main: string,
  env: Environment,
  readyUrl: string,
  flags: ReadonlyArray<string>,
): Service => {
  const log = join(logDir(context.dataDir), `${name}.log`)
  return makeService({
    name,
    title,
    log,
    launch: () =>
      launch({
        name,
        command: process.execPath,
        args: [...flags, main],
        env,
        log,
        runDir: runDir(context.dataDir),
      }),
    isReady: () => isHttpReady(readyUrl),
    readyWithinMs: APP_READY_WITHIN_MS,
    endWithinMs: APP_END_WITHIN_MS,
  })
}

/** The main module of a program. */
type MainOf = (name: ProgramName) => string

/** An instance of an app as a service. It is ready when its admin port says so. */
const makeAppService = (
  context: AppContext,
  mainOf: MainOf,
  app: ProgramName,
  name: string,
  env: Environment,
  title = name,
): Service => {
  const readyUrl = `http://127.0.0.1:${env['HUB_ADMIN_PORT']}/readyz`
  return makeNodeService(context, name, title, mainOf(app), env, readyUrl, nodeFlags(app))
}

const makeApps = (
  context: AppContext,
  mainOf: MainOf,
  simulatorMain: string | null,
  withSecond: boolean,
  extraDispatchers: ReadonlyArray<ExtraDispatcher>,
  operations: Environment | null,
): ReadonlyArray<Service> => {
  const { ports } = context
  const services = APP_NAMES.map((name) =>
    makeAppService(context, mainOf, name, name, appEnvironment(name, context)),
  )
  if (simulatorMain !== null) {
    const title = 'The operator simulator'
    const env = simulatorEnvironment(context)
    const readyUrl = `${operatorUrl(ports)}/statistics`
    services.unshift(
      makeNodeService(context, SIMULATOR, title, simulatorMain, env, readyUrl, SIMULATOR_FLAGS),
    )
  }
  if (withSecond) {
    const name = SECOND_COMMAND_API
    const instance = { name, port: ports.secondCommandApi, adminPort: ports.secondCommandApiAdmin }
    const env = instanceEnvironment('command-api', instance, context)
    services.push(makeAppService(context, mainOf, 'command-api', name, env, 'The second command-api'))
  }
  for (const name of extraDispatchers) {
    const adminPort = ports[EXTRA_DISPATCHERS[name]]
    const env = instanceEnvironment('dispatcher', { name, adminPort }, context)
    services.push(makeAppService(context, mainOf, 'dispatcher', name, env))
  }
  if (operations !== null) {
    services.push(makeAppService(context, mainOf, OPERATIONS_API, OPERATIONS_API, operations))
  }
  return services
}

/** Restarts a process that ends unexpectedly, until `stopping` is aborted. */
const supervise = async (
  service: Service,
  options: { readonly report: ReportProgress; readonly changed: () => void; readonly stopping: AbortSignal },
): Promise<void> => {
  const { report, stopping } = options
  let restartDelay = FIRST_RESTART_MS
  for (;;) {
    const startedAt = performance.now()
    const exit = await service.exited()
    if (stopping.aborted) return
    if (performance.now() - startedAt > STABLE_AFTER_MS) restartDelay = FIRST_RESTART_MS
    const how = exit?.signal ?? `exit code ${exit?.code ?? 'unknown'}`
    report(
      `${service.title} ended by itself (${how}); restarting it in ${restartDelay / 1000} s (log: ${service.log})`,
    )
    for (;;) {
      await delay(restartDelay, undefined, { signal: stopping }).catch(() => {})
      if (stopping.aborted) return
      restartDelay = Math.min(restartDelay * 2, LAST_RESTART_MS)
      try {
        await service.start()
        report(`${service.title} is running again`)
        options.changed()
        break
      } catch (error) {
        if (stopping.aborted) return
        // The process runs but is not ready yet. The outer loop waits until it ends.
        if (service.pid() !== null) break
        report(
          `${error instanceof Error ? error.message : String(error)} Trying again in ${restartDelay / 1000} s.`,
        )
      }
    }
  }
}

/**
 * Runs migrations, seeds and the creation of topics, each as soon as its server is ready, and reports
 * variables that look like settings and are none. The process loads its packages while the servers start.
 * `otherModule`: the prepare.ts of another checkout.
 */
const startPreparation = (
  program: string,
  otherModule: string | null,
  environment: Environment,
  secrets: Secrets,
  report: ReportProgress,
  signal: AbortSignal,
) => {
  const child = fork(program, otherModule === null ? [] : [pathToFileURL(otherModule).href], {
    signal,
    killSignal: 'SIGKILL',
  })
  const tasks: Array<PromiseWithResolvers<void>> = []
  let ended: Error | null = null
  const end = (reason: Error): void => {
    ended ??= reason
    for (const { reject } of tasks) reject(ended)
  }
  child.on('error', end)
  child.on('exit', () => end(new Error('The preparation ended before it was done.')))
  child.on('message', (message: PreparationMessage) => {
    if ('line' in message) return report(message.line)
    const { failure, number } = message
    const { reject, resolve } = tasks[number]!
    if (failure === null) resolve()
    else reject(failure.isUserError ? new UserError(failure.message) : new Error(failure.message))
  })
  const add = (task: PreparationTask): void => {
    const settled = Promise.withResolvers<void>()
    // `done` handles a rejection. Until then, Node must not report it as unhandled.
    settled.promise.catch(() => {})
    const request: PreparationRequest = { number: tasks.push(settled) - 1, task }
    if (ended === null) child.send(request)
    else settled.reject(ended)
  }
  add({ kind: 'variables', of: [Object.keys(environment)] })
  return {
    database: (url: string): void => add({ kind: 'database', of: [url, secrets] }),
    topics: (brokers: ReadonlyArray<string>): void =>
      add({
        kind: 'topics',
        of: [
          brokers,
          {
            prefix: environment['HUB_TOPIC_PREFIX'] ?? '',
            partitions: Number(environment['HUB_PARTITIONS'] ?? DEFAULT_PARTITIONS),
            replicationFactor: Number(environment['HUB_REPLICATION_FACTOR'] ?? 1),
          },
        ],
      }),
    done: async (): Promise<void> => {
      await inParallel(tasks.map(({ promise }) => promise))
      child.disconnect()
      child.kill('SIGKILL')
    },
  }
}

/**
 * Starts a hub and waits until all processes are ready. On failure it stops them and fails with a
 * `UserError`. The data folder contains `hub.json` and `hubctl.env` while the hub runs.
 */
export const startHub = async (options: HubOptions): Promise<Hub> => {
  const { environment, report, settings, signal } = options
  const { dataDir, ports } = settings
  const unlock = await lockDataDir(settings, report)
  const file = hubFile(dataDir)
  const hubctlEnvFile = hubctlFile(dataDir)
  const removeFiles = (): void => [file, hubctlEnvFile].forEach((path) => rmSync(path, { force: true }))
  removeFiles()
  const stopping = new AbortController()
  let stack: Stack | null = null
  let apps: ReadonlyArray<Service> = []
  let watching: ReadonlyArray<Promise<void>> = []

  const stopOnce = async (): Promise<void> => {
    stopping.abort()
    removeFiles()
    // Stops the apps first, because they need the servers to finish their work.
    await inParallel(apps.map((app) => app.end()))
    await Promise.all(watching)
    // Stops the apps that `supervise` was restarting.
    await inParallel(apps.map((app) => app.end()))
    await stack?.stop()
    unlock()
  }
  let stopped: Promise<void> | null = null
  const stop = (): Promise<void> => (stopped ??= stopOnce())

  try {
    const sources = options.sources ?? ROOT
    const withSimulator = options.simulator !== false
    const withSecond = options.secondCommandApi === true
    const withOperations = options.operations === true
    const extraDispatchers = (Object.keys(EXTRA_DISPATCHERS) as ReadonlyArray<ExtraDispatcher>).slice(
      0,
      (options.dispatchers ?? 1) - 1,
    )
    await requireFree(ports, [
      ...HUB_PORTS,
      ...(withSimulator ? SIMULATOR_PORTS : []),
      ...(withSecond ? SECOND_PORTS : []),
      ...(withOperations ? OPERATIONS_PORTS : []),
      ...extraDispatchers.map((name) => EXTRA_DISPATCHERS[name]),
      ...stackPorts(settings),
    ])
    const secrets = ensureSecrets(dataDir)
    const bundling = ensureBundles()
    const prepare = bundling.then((bundles) =>
      startPreparation(
        bundleOf(bundles, 'prepare'),
        sources === ROOT ? null : join(sources, 'infra/local/src/prepare.ts'),
        environment,
        secrets,
        report,
        stopping.signal,
      ),
    )
    // `await prepare` below reports a failure, also one that comes before a server is ready.
    const ignore = (): void => {}
    prepare.catch(ignore)
    const prepareDatabase = (url: string): void => void prepare.then(({ database }) => database(url), ignore)
    const prepareTopics = (brokers: ReadonlyArray<string>): void =>
      void prepare.then(({ topics }) => topics(brokers), ignore)
    // Beside the start of the servers, which takes longer.
    const consoleDir = withOperations ? ensureConsole(sources, dataDir, report) : null
    if (settings.databaseUrl !== undefined) prepareDatabase(settings.databaseUrl)
    if (settings.kafkaBrokers !== undefined) prepareTopics(settings.kafkaBrokers)
    stack = await startStack(settings, environment, report, {
      ...(signal === undefined ? {} : { signal }),
      onReady: (server, addresses) => {
        if (server === 'postgres') prepareDatabase(addresses.databaseUrl)
        if (server === 'kafka') prepareTopics(addresses.brokers)
      },
    })
    await (await prepare).done()
    const bundles = await bundling

    const { cacheDir, liveOperator } = settings
    const context: AppContext = { ports, dataDir, cacheDir, stack, secrets, liveOperator, environment }
    const operations = withOperations ? operationsEnvironment(context, await consoleDir) : null
    const mainOf: MainOf = (name) => appMain(name, sources, sources === ROOT ? bundles : null)
    const simulatorMain = withSimulator ? bundleOf(bundles, SIMULATOR) : null
    apps = makeApps(context, mainOf, simulatorMain, withSecond, extraDispatchers, operations)
    const interrupt = (): void => void inParallel(apps.map((app) => app.end())).catch(() => {})
    signal?.addEventListener('abort', interrupt)
    const began = performance.now()
    const excluded = new Set<string>(APP_NAMES.filter((name) => options.apps?.includes(name) === false))
    const startedApps = apps.filter(({ name }) => !excluded.has(name))
    await inParallel(
      startedApps.map((app) => app.start()),
      interrupt,
    )
    if (signal?.aborted === true) throw new UserError('The start was interrupted.')
    // An app may have ended while the others were starting.
    const ended = startedApps.find((app) => app.pid() === null)
    if (ended !== undefined) throw new UserError(`${ended.title} ended during the start.`, ended.log)
    report(`The apps are ready after ${((performance.now() - began) / 1000).toFixed(1)} s`)
    signal?.removeEventListener('abort', interrupt)
    const services = [...stack.services, ...apps]
    const addInstance: Hub['addInstance'] = (app, instance) => {
      const environmentOfInstance = instanceEnvironment(app, instance, context)
      const service = makeAppService(context, mainOf, app, instance.name, environmentOfInstance)
      apps = [...apps, service]
      return service
    }
    const running = stack
    const [first, second] = secrets.accounts
    const addresses = withOperations
      ? {
          operations_url: operationsUrl(ports),
          console_url: operationsUrl(ports),
          console_login_url: loginLink(context, FIRST_LOGIN),
        }
      : {}
    const programs: ReadonlyArray<ProgramName> = withOperations ? [...APP_NAMES, OPERATIONS_API] : APP_NAMES
    const describe = (): HubDescription => ({
      base_url: baseUrl(ports),
      ...(withSecond ? { second_base_url: secondBaseUrl(ports) } : {}),
      keys: { test: first.test, live: first.live },
      other_keys: { test: second.test, live: second.live },
      kafka: { brokers: running.brokers },
      database_url: running.databaseUrl,
      redis_url: running.redisUrl,
      schema_registry_url: environment['HUB_SCHEMA_REGISTRY_URL'] ?? `${baseUrl(ports)}/schema-registry`,
      operator_url: operatorUrl(ports),
      ...addresses,
      metrics_urls: Object.fromEntries(
        [...programs, ...extraDispatchers].map((name) => {
          const port = ports[{ ...ADMIN_PORTS, ...EXTRA_DISPATCHERS }[name]]
          return [name, `http://127.0.0.1:${port}/metrics`]
        }),
      ) as Record<AppName, string>,
      pids: {
        supervisor: process.pid,
        ...Object.fromEntries(
          services.flatMap((service) => {
            const pid = service.pid()
            return pid === null ? [] : [[service.name, pid]]
          }),
        ),
      },
    })
    const write = (): void => writeSecretFile(file, `${JSON.stringify(describe(), null, 2)}\n`)
    writeSecretFile(hubctlEnvFile, envText(hubctlEnvironment(context)))
    write()
    if (options.restart) {
      watching = services.map((service) =>
        supervise(service, { report, changed: write, stopping: stopping.signal }),
      )
    }
    return { describe, services, stack, addInstance, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
