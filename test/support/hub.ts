/** Starts server stacks and complete hubs for tests, on free ports. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type AppName,
  lockDataDir,
  databaseFolder,
  ensureSecrets,
  type Exit,
  freePortBase,
  type HubDescription,
  killProcessesOf,
  loginLink,
  OPERATIONS_API,
  type SimulatorProtocol,
  type Ports,
  PORT_PLAN,
  PORT_SPAN,
  PortInUseError,
  portsAt,
  readSettings,
  removeData,
  ROOT,
  type Service,
  type Settings,
  startHub as startLocalHub,
  startStack as startLocalStack,
  tail,
  UserError,
  WITHOUT_FSYNC,
} from '@hub/local-stack'
import { eventually, freePort, openDatabase } from '@hub/testkit'
import { emptyServers } from './empty-servers.ts'

/** A process of a hub, which a test can kill, pause and restart. */
export interface ProcessHandle {
  readonly name: string
  /** Throws while the process does not run. */
  readonly pid: () => number
  /** Sends a signal: SIGKILL, SIGTERM, SIGSTOP, SIGCONT. */
  readonly kill: (signal: NodeJS.Signals) => void
  /** Waits until the most recent process has ended. */
  readonly exited: () => Promise<Exit>
  /** Stops the process if it runs, starts it, and waits until it is ready. */
  readonly restart: () => Promise<void>
  /** Waits until the process is ready (apps: `/readyz` answers 200). */
  readonly waitReady: () => Promise<void>
  /** The path of the file with its output. */
  readonly logs: string
}

/** One of several processes of an app. */
export interface AppProcess extends ProcessHandle {
  /** The address of its metrics in the Prometheus text format. */
  readonly metricsUrl: string
}

/** The apps that distribute partitions among their processes. */
export type ConsumerApp = Exclude<AppName, 'command-api'>

export type ServerName = 'kafka' | 'postgres' | 'redis'

export interface TestStack {
  readonly brokers: ReadonlyArray<string>
  readonly databaseUrl: string
  readonly adminDatabaseUrl: string
  readonly redisUrl: string
  readonly dataDir: string
  readonly server: (name: ServerName) => ProcessHandle
  /** Stops all processes, waits for their end, and removes the data. Further calls do nothing. */
  readonly stop: () => Promise<void>
}

export interface TestHub {
  /** The content of `hub.json`, with the current process ids. */
  readonly describe: () => HubDescription
  readonly dataDir: string
  readonly ports: Ports
  readonly app: (name: AppName) => ProcessHandle
  /** The second command-api. Throws if the hub was started without one. */
  readonly secondCommandApi: () => ProcessHandle
  /** operations-api. Throws if the hub was started without it. */
  readonly operationsApi: () => ProcessHandle
  /** A new link that signs in to the console once, as a person with these roles. */
  readonly loginLink: (name: string, roles: ReadonlyArray<string>) => string
  /** All dispatchers, in the order of their numbers. */
  readonly dispatchers: ReadonlyArray<ProcessHandle>
  readonly server: (name: ServerName) => ProcessHandle
  /** The operator simulator. Throws if the hub uses the simulator of another hub. */
  readonly operator: ProcessHandle
  /** Adds a process of an app under a unique name. `restart` starts it. */
  readonly addProcess: (app: ConsumerApp, name: string) => Promise<AppProcess>
  /** Stops all processes, waits for their end, and removes the data. Further calls do nothing. */
  readonly stop: () => Promise<void>
}

/** The apps of a hub whose test receives no webhook. An app uses the processor, also while it has nothing to do. */
export const WITHOUT_WEBHOOKS = [
  'command-api',
  'dispatcher',
  'projector',
] as const satisfies ReadonlyArray<AppName>

interface TestHubOptions {
  /** Additional environment variables of the apps, such as `HUB_WEBHOOK_ALLOWED_HOSTS`. */
  readonly environment?: Readonly<Record<string, string>>
  /** Also starts a second command-api. Its address is `second_base_url` of the description. */
  readonly secondCommandApi?: boolean
  /** Also builds the console and starts operations-api, at `operations_url` of the description. */
  readonly operations?: boolean
  /** The number of dispatchers, at most three. Default: one. */
  readonly dispatchers?: number
  /**
   * `limits.api_rps` of the seeded accounts, instead of the contract's default of 100. For tests
   * and benchmarks that the request rate must not limit.
   */
  readonly apiRps?: number
  /**
   * How live messages reach the operator simulator: `smpp` as with `npm start`, or `http`. Over
   * HTTP the simulator recognises and counts repeated references.
   */
  readonly liveOperator?: SimulatorProtocol
  /** Servers that already run. Default: those that another hub of this process has left, or new ones. */
  readonly servers?: TestStack
  /** New servers in the data folder of the hub, with their logs, for tests that search these files. */
  readonly ownServers?: boolean
  /** The replaced hub. This hub uses its secrets and operator simulator. */
  readonly takesOverFrom?: TestHub
  /** The checkout that provides apps, migrations and topics. Default: this one. */
  readonly sources?: string
  /** The apps to start now. `restart` starts the others. Default: all. */
  readonly apps?: ReadonlyArray<AppName>
  /** Receives the progress lines that `npm start` shows. */
  readonly report?: (line: string) => void
}

/**
 * The ports of a hub that nothing else of it uses, for further processes. Unlike any free port, no other test takes
 * one of them while it is not in use.
 */
const sparePorts = ({ commandApi }: Ports): Array<number> => {
  const first = Math.max(...Object.values(PORT_PLAN).map(({ offset }) => offset)) + 1
  return Array.from({ length: PORT_SPAN - first }, (_, index) => commandApi + first + index)
}

/** The lines of a log that an error shows. */
const LOG_LINES = 20

/** A start that fails, with the end of the log: the folder with the log is removed after the test. */
const withLog = (error: unknown): unknown =>
  error instanceof UserError && error.log !== undefined && !(error instanceof PortInUseError)
    ? new Error([error.message, ...tail(error.log, LOG_LINES)].join('\n'), { cause: error })
    : error

/** `isStopped`: whether the hub of this process has stopped or is about to. */
const makeHandle = (service: Service, isStopped: () => boolean): ProcessHandle => ({
  name: service.name,
  pid: () => {
    const pid = service.pid()
    if (pid === null) throw new Error(`${service.name} does not run`)
    return pid
  },
  kill: service.signal,
  exited: async () => {
    const exit = await service.exited()
    if (exit === null) throw new Error(`${service.name} was never started`)
    return exit
  },
  restart: async () => {
    await service.end()
    // A test that continues after a signal has stopped its hub must not leave a process behind.
    if (isStopped()) throw new Error(`${service.name} does not start: its hub has stopped`)
    try {
      await service.start()
    } catch (error) {
      throw withLog(error)
    }
  },
  waitReady: service.waitReady,
  logs: service.log,
})

/** The environment without the variables of the developer's own hub. */
const cleanEnvironment = (): Record<string, string | undefined> =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('HUB_') || name === 'HUB_CACHE_DIR'),
  )

/** Whether the test runner has started this process. It stops what is left at its end. Benchmarks have no runner. */
const isTestRun = process.env['HUB_TEST_DIR'] !== undefined

/** The data folders of servers and hubs that are not stopped. If this process ends, they end with it. */
const inUse = new Set<string>()
process.on('exit', () => {
  for (const dataDir of inUse) {
    killProcessesOf(dataDir)
    removeData(dataDir)
  }
})

const remove = (dataDir: string): void => {
  removeData(dataDir)
  inUse.delete(dataDir)
}

/** Creates a data folder inside the folder that the test runner cleans up at its end. */
const newDataDir = (): string => {
  const parent = process.env['HUB_TEST_DIR'] ?? tmpdir()
  mkdirSync(parent, { recursive: true })
  const dir = mkdtempSync(join(parent, 'hub-'))
  // If the tests run as root, PostgreSQL runs as another user.
  chmodSync(dir, 0o755)
  inUse.add(dir)
  return dir
}

const newSettings = async (): Promise<Settings> => ({
  ...readSettings(cleanEnvironment()),
  ports: portsAt(await freePortBase()),
  dataDir: newDataDir(),
})

/** Another process may take a free port before the hub listens on it. */
const MAX_ATTEMPTS = 3

const onFreePorts = async <A>(start: (settings: Settings) => Promise<A>): Promise<A> => {
  for (let attempt = 1; ; attempt++) {
    const settings = await newSettings()
    try {
      return await start(settings)
    } catch (error) {
      const explained = withLog(error)
      remove(settings.dataDir)
      if (!(error instanceof PortInUseError) || attempt === MAX_ATTEMPTS) throw explained
    }
  }
}

interface Stopping {
  /** Further calls do nothing. */
  readonly stop: () => Promise<void>
  /** Whether `stop` was called. */
  readonly isStopped: () => boolean
}

const makeStopping = (dataDir: string, stop: () => Promise<void>): Stopping => {
  let stopped: Promise<void> | null = null
  const stopOnce = async (): Promise<void> => {
    await stop()
    // A process that was starting meanwhile.
    killProcessesOf(dataDir)
    remove(dataDir)
  }
  return { stop: () => (stopped ??= stopOnce()), isStopped: () => stopped !== null }
}

const makeFind =
  (services: ReadonlyArray<Service>, isStopped: () => boolean) =>
  (name: string): ProcessHandle => {
    const service = services.find((candidate) => candidate.name === name)
    if (service === undefined) throw new Error(`this hub has no process named ${name}`)
    return makeHandle(service, isStopped)
  }

interface TestStackOptions extends Pick<TestHubOptions, 'report'> {
  /** A copy of a PostgreSQL data folder to start from. It is moved into the stack's data folder. */
  readonly database?: string
}

/** Starts servers for a test that kills or stops them. */
export const startStack = (options: TestStackOptions = {}): Promise<TestStack> =>
  onFreePorts(async (settings) => {
    const report = options.report ?? (() => {})
    const release = await lockDataDir(settings, report)
    if (options.database !== undefined) renameSync(options.database, databaseFolder(settings.dataDir))
    const stack = await startLocalStack(
      settings,
      cleanEnvironment(),
      report,
      isTestRun ? { postgres: WITHOUT_FSYNC } : {},
    )
    const { isStopped, stop } = makeStopping(settings.dataDir, async () => {
      await stack.stop()
      release()
    })
    return {
      brokers: stack.brokers,
      databaseUrl: stack.databaseUrl,
      adminDatabaseUrl: stack.adminDatabaseUrl,
      redisUrl: stack.redisUrl,
      dataDir: settings.dataDir,
      server: makeFind(stack.services, isStopped),
      stop,
    }
  })

/**
 * The servers that hubs of this process have left; the test runner stops them at its end. `null`: they could not be
 * emptied, and have stopped.
 */
const leftServers: Array<Promise<TestStack | null>> = []

/** Servers of this process: those that a hub has left, or new ones. */
const takeServers = async (): Promise<TestStack> => {
  for (;;) {
    const left = leftServers.pop()
    if (left === undefined) return startStack()
    const stack = await left
    if (stack !== null) return stack
  }
}

/** Empties the servers for the next hub. Servers that a test has damaged are stopped instead. */
const leaveServers = (stack: TestStack): void => {
  leftServers.push(
    emptyServers(stack).then(
      () => stack,
      () => stack.stop().then(() => null),
    ),
  )
}

/**
 * Servers for a test that damages none of their data folders and changes none of their settings. Afterwards another
 * hub of this process uses them.
 */
export const borrowStack = async (): Promise<TestStack> => {
  if (!isTestRun) return startStack()
  const stack = await takeServers()
  let left = false
  const stop = async () => {
    if (!left) leaveServers(stack)
    left = true
  }
  return { ...stack, stop }
}

/** Sets the limit of every account in both modes. No app has cached the settings yet. */
const setApiRps = async (databaseUrl: string, apiRps: number): Promise<void> => {
  const sql = openDatabase(databaseUrl)
  try {
    await sql`
      INSERT INTO command.account_settings (account, mode, api_rps)
      SELECT id, mode, ${apiRps} FROM command.accounts CROSS JOIN unnest(enum_range(NULL::command.mode)) AS mode
      ON CONFLICT (account, mode) DO UPDATE SET api_rps = excluded.api_rps`
  } finally {
    await sql.end()
  }
}

/** Settings with the secrets and the operator simulator of the replaced hub. */
const settingsOfSuccessor = (settings: Settings, { dataDir, ports }: TestHub): Settings => {
  copyFileSync(join(dataDir, 'secrets.json'), join(settings.dataDir, 'secrets.json'))
  const { operatorCallback, operatorSimulator, operatorSmpp } = ports
  return { ...settings, ports: { ...settings.ports, operatorCallback, operatorSimulator, operatorSmpp } }
}

/**
 * Starts a hub and waits until it is ready: servers, operator simulator and the apps. Nothing
 * restarts a process that ends.
 */
export const startHub = async (options: TestHubOptions = {}): Promise<TestHub> => {
  if (options.servers !== undefined || options.ownServers === true || !isTestRun) {
    return startHubOn(options)
  }
  const servers = await takeServers()
  try {
    const hub = await startHubOn({ ...options, servers })
    let stopped: Promise<void> | null = null
    const stop = () => (stopped ??= hub.stop().then(() => leaveServers(servers)))
    return { ...hub, server: servers.server, stop }
  } catch (error) {
    await servers.stop()
    throw error
  }
}

const startHubOn = (options: TestHubOptions): Promise<TestHub> =>
  onFreePorts(async (free) => {
    const { servers, takesOverFrom } = options
    const settings: Settings = {
      ...(takesOverFrom === undefined ? free : settingsOfSuccessor(free, takesOverFrom)),
      ...(servers === undefined
        ? {}
        : { kafkaBrokers: servers.brokers, databaseUrl: servers.databaseUrl, redisUrl: servers.redisUrl }),
      ...(options.liveOperator === undefined ? {} : { liveOperator: options.liveOperator }),
    }
    const hub = await startLocalHub({
      settings,
      simulator: takesOverFrom === undefined,
      ...(options.sources === undefined ? {} : { sources: options.sources }),
      ...(options.apps === undefined ? {} : { apps: options.apps }),
      environment: { ...cleanEnvironment(), ...options.environment },
      report: options.report ?? (() => {}),
      restart: false,
      secondCommandApi: options.secondCommandApi ?? false,
      operations: options.operations ?? false,
      dispatchers: options.dispatchers ?? 1,
    })
    const services = [...hub.services]
    const { isStopped, stop } = makeStopping(settings.dataDir, hub.stop)
    if (options.apiRps !== undefined) {
      try {
        await setApiRps(hub.describe().database_url, options.apiRps)
      } catch (error) {
        await stop()
        throw error
      }
    }
    const find = makeFind(services, isStopped)
    const spares = sparePorts(settings.ports)
    return {
      describe: hub.describe,
      dataDir: settings.dataDir,
      ports: settings.ports,
      app: find,
      secondCommandApi: () => find('command-api-2'),
      operationsApi: () => find(OPERATIONS_API),
      loginLink: (name, roles) =>
        loginLink({ ports: settings.ports, secrets: ensureSecrets(settings.dataDir) }, { name, roles }),
      dispatchers: hub.services
        .filter(({ name }) => name.startsWith('dispatcher'))
        .map(({ name }) => find(name)),
      server: find,
      get operator() {
        return find('operator-simulator')
      },
      addProcess: async (app, name) => {
        const adminPort = spares.shift() ?? (await freePort())
        const service = hub.addInstance(app, { name, adminPort })
        services.push(service)
        return { ...makeHandle(service, isStopped), metricsUrl: `http://127.0.0.1:${adminPort}/metrics` }
      },
      stop,
    }
  })

/** A hub whose supervisor is a process of its own. */
export interface HubProcess {
  /** The content of `hub.json`, with the current process ids. */
  readonly describe: () => HubDescription
  readonly dataDir: string
  /** Stops all processes, waits for their end, and removes the data. Further calls do nothing. */
  readonly stop: () => Promise<void>
}

/** The supervisor gives up before. */
const PROCESS_READY_WITHIN_MS = 180_000

/** Starts a hub as `npm start` does, and waits until it is ready. */
export const startHubProcess = async (
  options: Pick<TestHubOptions, 'environment' | 'apiRps'> = {},
): Promise<HubProcess> => {
  const { dataDir, ports } = await newSettings()
  const supervisor = fork(join(ROOT, 'infra/local/src/main.ts'), ['start'], {
    silent: true,
    env: {
      ...cleanEnvironment(),
      ...options.environment,
      HUB_DATA_DIR: dataDir,
      HUB_PORT_BASE: String(ports.commandApi),
    },
  })
  let output = ''
  for (const stream of [supervisor.stdout, supervisor.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8')
    })
  }
  const ended = once(supervisor, 'exit')
  const file = join(dataDir, 'hub.json')
  const describe = (): HubDescription => JSON.parse(readFileSync(file, 'utf8')) as HubDescription
  const { stop } = makeStopping(dataDir, async () => {
    supervisor.kill('SIGTERM')
    await ended
  })
  const failure = ended.then(() => {
    throw new Error(`The hub ended during its start:\n${output}`)
  })
  try {
    await Promise.race([
      failure,
      eventually(() => existsSync(file), { withinMs: PROCESS_READY_WITHIN_MS, everyMs: 100 }),
    ])
    if (options.apiRps !== undefined) await setApiRps(describe().database_url, options.apiRps)
  } catch (error) {
    await stop()
    throw error
  }
  return { describe, dataDir, stop }
}

/** Reads the counters of the operator simulator, such as `references` and `repeated`. */
export const operatorStatistics = async (hub: TestHub): Promise<Readonly<Record<string, number>>> =>
  (await (await fetch(`${hub.describe().operator_url}/statistics`)).json()) as Record<string, number>

/** Reads a metric of a process, summed over its labels. Returns 0 if it does not exist yet. */
export const readMetric = async (metricsUrl: string, metric: string): Promise<number> => {
  const text = await (await fetch(metricsUrl)).text()
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
