/** Whole stacks and hubs for tests across processes: real servers and apps on free ports, gone when the test is. */
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, renameSync } from 'node:fs'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type AppName,
  claimDataDir,
  databaseFolder,
  type Exit,
  freePortBase,
  type HubDescription,
  type LiveOperator,
  type Ports,
  PortTaken,
  portsAt,
  readSettings,
  removeData,
  type Service,
  type Settings,
  startHub as startLocalHub,
  startStack as startLocalStack,
} from '@hub/local-stack'
import { openDatabase } from './servers.ts'

/** A process of a hub, to be killed, stopped and started again. */
export interface ProcessHandle {
  readonly name: string
  /** Fails while it does not run. */
  readonly pid: () => number
  /** Sends a signal: SIGKILL, SIGTERM, SIGSTOP, SIGCONT. */
  readonly kill: (signal: NodeJS.Signals) => void
  /** Resolves when the process that was started last has ended, with how it did. */
  readonly exited: () => Promise<Exit>
  /** Ends it where it still runs, starts it, and waits until it is ready. */
  readonly restart: () => Promise<void>
  /** Waits until it answers (apps: `/readyz` says 200). */
  readonly waitReady: () => Promise<void>
  /** The file with its output. */
  readonly logs: string
}

/** A process of an app. */
export interface Instance extends ProcessHandle {
  /** Prometheus' text, while it runs. */
  readonly metricsUrl: string
}

/** The apps that share the partitions of topics out among their processes. */
export type Consumer = Exclude<AppName, 'command-api'>

export type ServerName = 'kafka' | 'postgres' | 'redis'

export interface TestStack {
  readonly brokers: ReadonlyArray<string>
  readonly databaseUrl: string
  readonly adminDatabaseUrl: string
  readonly redisUrl: string
  readonly dataDir: string
  readonly server: (name: ServerName) => ProcessHandle
  /** Ends everything, waits until it is gone, and removes the data. Safe to repeat. */
  readonly stop: () => Promise<void>
}

export interface TestHub {
  /** The content of `hub.json`, with the process ids of now. */
  readonly describe: () => HubDescription
  readonly dataDir: string
  readonly ports: Ports
  readonly app: (name: AppName) => ProcessHandle
  /** The second command-api. Fails where the hub was started without. */
  readonly secondCommandApi: () => ProcessHandle
  /** Every dispatcher, the first one first. */
  readonly dispatchers: ReadonlyArray<ProcessHandle>
  readonly server: (name: ServerName) => ProcessHandle
  /** The operator simulator. Asking for it fails where the hub uses another one's. */
  readonly operator: ProcessHandle
  /** A further process of an app, not started yet: `restart` does that. A name is given once. */
  readonly another: (app: Consumer, name: string) => Promise<Instance>
  /** Ends everything, waits until it is gone, and removes the data. Safe to repeat. */
  readonly stop: () => Promise<void>
}

export interface TestHubOptions {
  /** More environment for the apps, such as `HUB_WEBHOOK_ALLOWED_HOSTS`. */
  readonly environment?: Readonly<Record<string, string>>
  /** Starts a second command-api as well; its address is `second_base_url` of the description. */
  readonly secondCommandApi?: boolean
  /** Dispatchers that share the shards, up to three; absent: one. */
  readonly dispatchers?: number
  /**
   * `limits.api_rps` of the seeded accounts, in place of the contract's 100: for tests and benchmarks that measure something else than
   * the request rate. It is set as an operator of the hub would set it.
   */
  readonly apiRps?: number
  /**
   * How live keys reach the operator simulator: `smpp` as in `npm start`, or `http`, whose operator recognises a reference that
   * comes twice and counts it.
   */
  readonly liveOperator?: LiveOperator
  /** Servers of one's own; absent: the hub starts some and ends them. */
  readonly servers?: TestStack
  /** The same hub in other processes: the secrets and the operator simulator of this one, which must reach it over SMPP where both run. */
  readonly succeeds?: TestHub
  /** The checkout whose apps, migrations and topics these are; absent: this one. */
  readonly sources?: string
  /** The apps to start; absent: all. The others are started by their `restart`. */
  readonly apps?: ReadonlyArray<AppName>
  /** Called with the lines that `npm start` would show. */
  readonly report?: (line: string) => void
}

const makeHandle = (service: Service): ProcessHandle => ({
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
    await service.start()
  },
  waitReady: service.waitReady,
  logs: service.log,
})

/** What `npm test` has not been told about must not reach a test: the servers and ports of the person's own hub. */
const cleanEnvironment = (): Record<string, string | undefined> =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('HUB_') || name === 'HUB_CACHE_DIR'),
  )

/** A new data folder, below the one that the test runner sweeps at its end. */
const newDataDir = (): string => {
  const parent = process.env['HUB_TEST_DIR'] ?? tmpdir()
  mkdirSync(parent, { recursive: true })
  const dir = mkdtempSync(join(parent, 'hub-'))
  // PostgreSQL runs as another user where the tests run as root.
  chmodSync(dir, 0o755)
  return dir
}

const newSettings = async (): Promise<Settings> => ({
  ...readSettings(cleanEnvironment()),
  ports: portsAt(await freePortBase()),
  dataDir: newDataDir(),
})

/** A port that nobody listens on now. */
const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Between finding free ports and listening on them somebody may take one; three times in a row is no accident. */
const TRIES = 3

const onFreePorts = async <A>(start: (settings: Settings) => Promise<A>): Promise<A> => {
  for (let attempt = 1; ; attempt++) {
    const settings = await newSettings()
    try {
      return await start(settings)
    } catch (error) {
      removeData(settings.dataDir)
      if (!(error instanceof PortTaken) || attempt === TRIES) throw error
    }
  }
}

/** Kills what is left when a test process ends without having stopped its hub: a failed set-up, a crash. */
const running = new Set<ReadonlyArray<Service>>()
process.on('exit', () => {
  for (const services of running) {
    for (const service of services) {
      const pid = service.pid()
      if (pid === null) continue
      try {
        process.kill(-pid, 'SIGKILL')
      } catch {
        // It has ended in this very moment.
      }
    }
  }
})

const stopper = (
  services: ReadonlyArray<Service>,
  dataDir: string,
  stop: () => Promise<void>,
): (() => Promise<void>) => {
  running.add(services)
  let stopped: Promise<void> | null = null
  const stopOnce = async (): Promise<void> => {
    await stop()
    running.delete(services)
    removeData(dataDir)
  }
  return () => (stopped ??= stopOnce())
}

const finder =
  (services: ReadonlyArray<Service>) =>
  (name: string): ProcessHandle => {
    const service = services.find((one) => one.name === name)
    if (service === undefined) throw new Error(`there is no ${name} here`)
    return makeHandle(service)
  }

export interface TestStackOptions extends Pick<TestHubOptions, 'report'> {
  /** A copy of a cluster of PostgreSQL, which goes on from there. It is moved away. */
  readonly database?: string
}

/** Kafka, PostgreSQL and Redis of one's own, to be killed or stopped. For ordinary use the runner's are there. */
export const startStack = (options: TestStackOptions = {}): Promise<TestStack> =>
  onFreePorts(async (settings) => {
    const report = options.report ?? (() => {})
    const release = await claimDataDir(settings, report)
    if (options.database !== undefined) renameSync(options.database, databaseFolder(settings.dataDir))
    const stack = await startLocalStack(settings, cleanEnvironment(), report)
    return {
      brokers: stack.brokers,
      databaseUrl: stack.databaseUrl,
      adminDatabaseUrl: stack.adminDatabaseUrl,
      redisUrl: stack.redisUrl,
      dataDir: settings.dataDir,
      server: finder(stack.services),
      stop: stopper(stack.services, settings.dataDir, async () => {
        await stack.stop()
        release()
      }),
    }
  })

/** For every account there is, in both modes. Nobody has asked for their settings yet, so none is remembered. */
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

/** The settings of a hub that takes over where another one is, or was. */
const succeeding = (settings: Settings, { dataDir, ports }: TestHub): Settings => {
  copyFileSync(join(dataDir, 'secrets.json'), join(settings.dataDir, 'secrets.json'))
  const { operatorCallback, operatorSimulator, operatorSmpp } = ports
  return { ...settings, ports: { ...settings.ports, operatorCallback, operatorSimulator, operatorSmpp } }
}

/** A hub of one's own: servers, operator simulator and the four apps, ready. Nothing is restarted by itself. */
export const startHub = (options: TestHubOptions = {}): Promise<TestHub> =>
  onFreePorts(async (free) => {
    const { servers, succeeds } = options
    const settings: Settings = {
      ...(succeeds === undefined ? free : succeeding(free, succeeds)),
      ...(servers === undefined
        ? {}
        : { kafkaBrokers: servers.brokers, databaseUrl: servers.databaseUrl, redisUrl: servers.redisUrl }),
      ...(options.liveOperator === undefined ? {} : { liveOperator: options.liveOperator }),
    }
    const hub = await startLocalHub({
      settings,
      simulator: succeeds === undefined,
      ...(options.sources === undefined ? {} : { sources: options.sources }),
      ...(options.apps === undefined ? {} : { apps: options.apps }),
      environment: { ...cleanEnvironment(), ...options.environment },
      report: options.report ?? (() => {}),
      restart: false,
      secondCommandApi: options.secondCommandApi ?? false,
      dispatchers: options.dispatchers ?? 1,
    })
    const services = [...hub.services]
    const stop = stopper(services, settings.dataDir, hub.stop)
    if (options.apiRps !== undefined) {
      try {
        await setApiRps(hub.describe().database_url, options.apiRps)
      } catch (error) {
        await stop()
        throw error
      }
    }
    const find = finder(services)
    return {
      describe: hub.describe,
      dataDir: settings.dataDir,
      ports: settings.ports,
      app: find,
      secondCommandApi: () => find('command-api-2'),
      dispatchers: hub.services
        .filter(({ name }) => name.startsWith('dispatcher'))
        .map(({ name }) => find(name)),
      server: find,
      get operator() {
        return find('operator-simulator')
      },
      another: async (app, name) => {
        const adminPort = await freePort()
        const service = hub.another(app, { name, adminPort })
        services.push(service)
        return { ...makeHandle(service), metricsUrl: `http://127.0.0.1:${adminPort}/metrics` }
      },
      stop,
    }
  })
