/** A whole hub on one machine: the stack, the operator simulator, the four apps. */
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
  extraDispatcherEnvironment,
  nodeFlags,
  SIMULATOR_FLAGS,
  operatorUrl,
  SECOND_COMMAND_API,
  secondBaseUrl,
  secondCommandApiEnvironment,
  SIMULATOR,
  simulatorEnvironment,
  simulatorMain,
} from './apps.ts'
import { lockDataDir } from './data-dir-lock.ts'
import { inParallel } from './parallel.ts'
import { type PortName, requireFree } from './ports.ts'
import { isHttpReady } from './probe.ts'
import { UserError } from './user-error.ts'
import { launch } from './processes.ts'
import { ensureSecrets, type Secrets } from './secrets.ts'
import { makeService, type Service } from './service.ts'
import { ROOT, type Settings } from './settings.ts'
import {
  type Environment,
  logDir,
  type ReportProgress,
  runDir,
  type Stack,
  stackPorts,
  startStack,
} from './stack.ts'

/** The content of `hub.json`. */
export interface HubDescription {
  readonly base_url: string
  /** Of the second command-api, where there is one. */
  readonly second_base_url?: string
  readonly keys: { readonly test: string; readonly live: string }
  /** Of the second account. */
  readonly other_keys: { readonly test: string; readonly live: string }
  readonly kafka: { readonly brokers: ReadonlyArray<string> }
  readonly database_url: string
  readonly redis_url: string
  readonly schema_registry_url: string
  readonly operator_url: string
  readonly metrics_urls: Readonly<Record<AppName, string> & Partial<Record<ExtraDispatcher, string>>>
  /** By process: the supervisor, the servers that were started, the simulator, the apps. */
  readonly pids: Readonly<Record<string, number>>
}

interface HubOptions {
  readonly settings: Settings
  /** Passed on to the apps, below what the hub decides itself. */
  readonly environment: Environment
  readonly report: ReportProgress
  /** Starts again what ends by itself. Tests that kill apps do that themselves. */
  readonly restart: boolean
  /** Starts a second command-api as well, at `second_base_url`. */
  readonly secondCommandApi?: boolean
  /** Dispatchers, up to three; absent: one. The further ones are named `dispatcher-2` and `dispatcher-3`. */
  readonly dispatchers?: number
  /** The checkout whose apps, migrations and topics these are; absent: this one. Servers and simulator are always this one's. */
  readonly sources?: string
  /** `false`: live keys reach the operator simulator of another hub, which has these ports. */
  readonly simulator?: boolean
  /** The apps to start; absent: all. The others are there to be started later. */
  readonly apps?: ReadonlyArray<AppName>
  /** Aborted during the start: everything ends again, and the start fails. */
  readonly signal?: AbortSignal
}

export interface Hub {
  readonly describe: () => HubDescription
  /** Every process, in the order of the start. */
  readonly services: ReadonlyArray<Service>
  readonly stack: Stack
  /** A further process of a consumer beside the others, not started yet. The hub's end is its end, too. */
  readonly addInstance: (app: Exclude<AppName, 'command-api'>, settings: InstanceSettings) => Service
  /** Ends everything and waits until it is gone. Safe to repeat. */
  readonly stop: () => Promise<void>
}

export const hubFile = (dataDir: string): string => join(dataDir, 'hub.json')

/** The settings of hubctl, which looks for them here where its environment names no hub. */
const hubctlFile = (dataDir: string): string => join(dataDir, 'hubctl.env')

/** Lines that a shell reads in the same way as Node. */
const envText = (environment: Environment): string =>
  Object.entries(environment)
    .map(([name, value = '']) => (value.includes("'") ? `${name}="${value}"\n` : `${name}='${value}'\n`))
    .join('')

/** An app loads, connects and joins its group within 3 s here; five of them on a loaded machine take longer. */
const APP_READY_WITHIN_MS = 60_000
/** Apps promise to end within 10 s. */
const APP_END_WITHIN_MS = 12_000

/** A process that ends by itself is started again after so long, doubled each time. */
const FIRST_RESTART_MS = 1_000
const LAST_RESTART_MS = 30_000
/** A process that lived this long has got over what ended it. */
const STABLE_AFTER_MS = 60_000

/** Enough for several instances of an app on one machine; production has 48. */
const DEFAULT_PARTITIONS = 6

const HUB_PORTS: ReadonlyArray<PortName> = [
  'commandApi',
  'operatorCallback',
  ...APP_NAMES.map((name) => ADMIN_PORTS[name]),
]
const SIMULATOR_PORTS: ReadonlyArray<PortName> = ['operatorSimulator', 'operatorSmpp']

const writeSecretFile = (path: string, content: string): void => {
  writeFileSync(`${path}.new`, content, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

const SECOND_PORTS: ReadonlyArray<PortName> = ['secondCommandApi', 'secondCommandApiAdmin']

/** A program of ours as a service. */
const makeNodeService = (
  context: AppContext,
  name: string,
  title: string,
  main: string,
  env: Environment,
  answers: () => Promise<boolean>,
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
    answers,
    readyWithinMs: APP_READY_WITHIN_MS,
    endWithinMs: APP_END_WITHIN_MS,
  })
}

const makeApps = (
  context: AppContext,
  sources: string,
  withSimulator: boolean,
  withSecond: boolean,
  extraDispatchers: ReadonlyArray<ExtraDispatcher>,
): ReadonlyArray<Service> => {
  const node = (
    ...rest: Parameters<typeof makeNodeService> extends [unknown, ...infer Rest] ? Rest : never
  ) => makeNodeService(context, ...rest)
  return [
    ...(withSimulator
      ? [
          node(
            SIMULATOR,
            'The operator simulator',
            simulatorMain,
            simulatorEnvironment(context),
            () => isHttpReady(`${operatorUrl(context.ports)}/statistics`),
            SIMULATOR_FLAGS,
          ),
        ]
      : []),
    ...APP_NAMES.map((name) =>
      node(
        name,
        name,
        appMain(name, sources),
        appEnvironment(name, context),
        () => isHttpReady(`http://127.0.0.1:${context.ports[ADMIN_PORTS[name]]}/readyz`),
        nodeFlags(name),
      ),
    ),
    ...(withSecond
      ? [
          node(
            SECOND_COMMAND_API,
            'The second command-api',
            appMain('command-api', sources),
            secondCommandApiEnvironment(context),
            () => isHttpReady(`http://127.0.0.1:${context.ports.secondCommandApiAdmin}/readyz`),
            nodeFlags('command-api'),
          ),
        ]
      : []),
    ...extraDispatchers.map((name) =>
      node(
        name,
        name,
        appMain('dispatcher', sources),
        extraDispatcherEnvironment(name, context),
        () => isHttpReady(`http://127.0.0.1:${context.ports[EXTRA_DISPATCHERS[name]]}/readyz`),
        nodeFlags('dispatcher'),
      ),
    ),
  ]
}

/** Starts again what ends by itself, until `stopping`. */
const supervise = async (
  service: Service,
  options: { readonly report: ReportProgress; readonly changed: () => void; readonly stopping: AbortSignal },
): Promise<void> => {
  const { report, stopping } = options
  let pause = FIRST_RESTART_MS
  for (;;) {
    const startedAt = performance.now()
    const exit = await service.exited()
    if (stopping.aborted) return
    if (performance.now() - startedAt > STABLE_AFTER_MS) pause = FIRST_RESTART_MS
    const how = exit?.signal ?? `exit code ${exit?.code ?? 'unknown'}`
    report(
      `${service.title} ended by itself (${how}); starting it again in ${pause / 1000} s (log: ${service.log})`,
    )
    for (;;) {
      await delay(pause, undefined, { signal: stopping }).catch(() => {})
      if (stopping.aborted) return
      pause = Math.min(pause * 2, LAST_RESTART_MS)
      try {
        await service.start()
        report(`${service.title} is back`)
        options.changed()
        break
      } catch (error) {
        if (stopping.aborted) return
        // It runs and is not ready yet: its own end is what to wait for now.
        if (service.pid() !== null) break
        report(`${error instanceof Error ? error.message : String(error)} Trying again in ${pause / 1000} s.`)
      }
    }
  }
}

/** Migrations, seeds and topics, each as soon as its server answers. */
const startPreparation = (
  sources: string,
  environment: Environment,
  secrets: Secrets,
  signal: AbortSignal,
) => {
  // Loaded while the servers start: Effect and the drivers take a third of a second.
  const loading: Promise<typeof import('./prepare.ts')> =
    sources === ROOT
      ? import('./prepare.ts')
      : import(pathToFileURL(join(sources, 'infra/local/src/prepare.ts')).href)
  const work: Array<Promise<void>> = []
  const add = (what: (prepare: typeof import('./prepare.ts')) => Promise<void>): void => {
    const made = loading.then(what)
    // Looked at in `done`; a failure before that must not count as unhandled.
    made.catch(() => {})
    work.push(made)
  }
  return {
    database: (url: string): void => add((prepare) => prepare.prepareDatabase(url, secrets, signal)),
    topics: (brokers: ReadonlyArray<string>): void =>
      add((prepare) =>
        prepare.prepareTopics(
          brokers,
          {
            prefix: environment['HUB_TOPIC_PREFIX'] ?? '',
            partitions: Number(environment['HUB_PARTITIONS'] ?? DEFAULT_PARTITIONS),
          },
          signal,
        ),
      ),
    done: () => inParallel(work),
  }
}

/**
 * Starts a hub and waits until everything is ready. Fails with a `UserError` and leaves nothing running. `hub.json` and
 * `hubctl.env` are in the data folder for as long as it runs.
 */
export const startHub = async (options: HubOptions): Promise<Hub> => {
  const { environment, report, settings, signal } = options
  const { dataDir, ports } = settings
  const release = await lockDataDir(settings, report)
  const file = hubFile(dataDir)
  const hubctlEnvFile = hubctlFile(dataDir)
  rmSync(file, { force: true })
  rmSync(hubctlEnvFile, { force: true })
  const stopping = new AbortController()
  let stack: Stack | null = null
  let apps: ReadonlyArray<Service> = []
  let watching: ReadonlyArray<Promise<void>> = []

  const stopOnce = async (): Promise<void> => {
    stopping.abort()
    rmSync(file, { force: true })
    rmSync(hubctlEnvFile, { force: true })
    // The apps first: what they still have to store or send needs the servers.
    await inParallel(apps.map((app) => app.end()))
    await Promise.all(watching)
    // A restart may have been half-way.
    await inParallel(apps.map((app) => app.end()))
    await stack?.stop()
    release()
  }
  let stopped: Promise<void> | null = null
  const stop = (): Promise<void> => (stopped ??= stopOnce())

  try {
    const sources = options.sources ?? ROOT
    const withSimulator = options.simulator !== false
    const withSecond = options.secondCommandApi === true
    const extraDispatchers = (Object.keys(EXTRA_DISPATCHERS) as ReadonlyArray<ExtraDispatcher>).slice(
      0,
      (options.dispatchers ?? 1) - 1,
    )
    await requireFree(ports, [
      ...HUB_PORTS,
      ...(withSimulator ? SIMULATOR_PORTS : []),
      ...(withSecond ? SECOND_PORTS : []),
      ...extraDispatchers.map((name) => EXTRA_DISPATCHERS[name]),
      ...stackPorts(settings),
    ])
    const secrets = ensureSecrets(dataDir)
    const prepare = startPreparation(sources, environment, secrets, stopping.signal)
    if (settings.databaseUrl !== undefined) prepare.database(settings.databaseUrl)
    if (settings.kafkaBrokers !== undefined) prepare.topics(settings.kafkaBrokers)
    stack = await startStack(settings, environment, report, {
      ...(signal === undefined ? {} : { signal }),
      onReady: (server, addresses) => {
        if (server === 'postgres') prepare.database(addresses.databaseUrl)
        if (server === 'kafka') prepare.topics(addresses.brokers)
      },
    })
    await prepare.done()

    const { cacheDir, liveOperator } = settings
    const context: AppContext = { ports, dataDir, cacheDir, stack, secrets, liveOperator, environment }
    apps = makeApps(context, sources, withSimulator, withSecond, extraDispatchers)
    const interrupt = (): void => void inParallel(apps.map((app) => app.end())).catch(() => {})
    signal?.addEventListener('abort', interrupt)
    const began = performance.now()
    const later = new Set<string>(APP_NAMES.filter((name) => options.apps?.includes(name) === false))
    const now = apps.filter(({ name }) => !later.has(name))
    await inParallel(
      now.map((app) => app.start()),
      interrupt,
    )
    if (signal?.aborted === true) throw new UserError('The start was interrupted.')
    // One may have ended again while others were still starting.
    const ended = now.find((app) => app.pid() === null)
    if (ended !== undefined) throw new UserError(`${ended.title} ended during the start.`, ended.log)
    report(`The apps are ready after ${((performance.now() - began) / 1000).toFixed(1)} s`)
    signal?.removeEventListener('abort', interrupt)
    const services = [...stack.services, ...apps]
    const addInstance: Hub['addInstance'] = (app, instance) => {
      const service = makeNodeService(
        context,
        instance.name,
        instance.name,
        appMain(app, sources),
        instanceEnvironment(app, instance, context),
        () => isHttpReady(`http://127.0.0.1:${instance.adminPort}/readyz`),
        nodeFlags(app),
      )
      apps = [...apps, service]
      return service
    }
    const running = stack
    const [first, second] = secrets.accounts
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
      metrics_urls: Object.fromEntries(
        [
          ...APP_NAMES.map((name) => [name, ports[ADMIN_PORTS[name]]] as const),
          ...extraDispatchers.map((name) => [name, ports[EXTRA_DISPATCHERS[name]]] as const),
        ].map(([name, port]) => [name, `http://127.0.0.1:${port}/metrics`]),
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
