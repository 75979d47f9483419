/** The apps of a local hub, with the Node flags and the environment of each process. */
import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import { localLoginUrl } from '@hub/local-login'
import { bundleOf } from '../../bundle/bundle.ts'
import type { Ports } from './ports.ts'
import type { Secrets } from './secrets.ts'
import type { Environment, SimulatorProtocol } from './settings.ts'
import type { Stack } from './stack.ts'

export const APP_NAMES = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const
export type AppName = (typeof APP_NAMES)[number]

/** The process for hub staff. Messages do not need it, so a hub for tests has it only on request. */
export const OPERATIONS_API = 'operations-api'
/** All programs with an admin port. */
export type ProgramName = AppName | typeof OPERATIONS_API

export const ADMIN_PORTS = {
  'command-api': 'commandApiAdmin',
  dispatcher: 'dispatcherAdmin',
  projector: 'projectorAdmin',
  'webhook-fanout': 'webhookFanoutAdmin',
  'operations-api': 'operationsApiAdmin',
} as const satisfies Record<ProgramName, keyof Ports>

export const SIMULATOR = 'operator-simulator'
/** A second instance of command-api, for tests of concurrent requests. */
export const SECOND_COMMAND_API = 'command-api-2'

/** The admin ports of further dispatchers by name, for tests in which shards change their owner. */
export const EXTRA_DISPATCHERS = {
  'dispatcher-2': 'secondDispatcherAdmin',
  'dispatcher-3': 'thirdDispatcherAdmin',
} as const satisfies Record<string, keyof Ports>
export type ExtraDispatcher = keyof typeof EXTRA_DISPATCHERS

/** The Node flags of the operator simulator, which needs little memory. */
export const SIMULATOR_FLAGS: ReadonlyArray<string> = ['--max-semi-space-size=8']

/**
 * The semi-space of V8's young generation in MiB. By default it grows to 16 (three times that in
 * all) and stays there.
 * - dispatcher: 8 costs a little more garbage collection and saves 10 to 60 MiB.
 * - command-api: each send leaves garbage, and collection took a sixth of the time. With 32, it
 *   accepts 5 % more sends.
 * - projector: transaction batches outlive a small semi-space. With 16, it reads a fifth more
 *   records.
 * - webhook-fanout: a collection also frees the socket buffers outside of the heap. With 4, a
 *   backlog is delivered a tenth faster, with 20 MiB less.
 * - operations-api: some requests per second, so a small one is enough.
 */
const SEMI_SPACE_MIB: Readonly<Record<ProgramName, number>> = {
  'command-api': 32,
  dispatcher: 8,
  projector: 16,
  'webhook-fanout': 4,
  'operations-api': 8,
}

/**
 * The limit of V8's old generation in MiB. Without a limit, the heap of the dispatcher grew to 370
 * MiB with 70 MiB of live data, behind a backlog of 100,000 messages. With 512 MiB, V8 collected so
 * often that the recovery of a shard took four times as long. The memory budget is a third of this
 * limit.
 */
const MAX_OLD_SPACE_MIB: Readonly<Partial<Record<ProgramName, number>>> = { dispatcher: 768 }

/**
 * The heap size in MiB at which V8 runs its first full collection. Socket buffers count too, and a
 * backlog consists of them. By default V8 starts near the live data of the fan-out (35 MiB) and
 * then collects ten times per second.
 */
const INITIAL_OLD_SPACE_MIB: Readonly<Partial<Record<ProgramName, number>>> = { 'webhook-fanout': 128 }

/**
 * Apps whose young generation V8 collects with one thread. In the fan-out, 0.3 MB survive a
 * collection, which is 0.3 ms of work. Helper threads would take cores from the delivery: without
 * them, a backlog is delivered 5 % faster.
 */
const SINGLE_THREADED_SCAVENGE: ReadonlyArray<ProgramName> = ['webhook-fanout']

/** The Node flags of an app. */
export const nodeFlags = (name: ProgramName): ReadonlyArray<string> => {
  const old = MAX_OLD_SPACE_MIB[name]
  const first = INITIAL_OLD_SPACE_MIB[name]
  return [
    `--max-semi-space-size=${SEMI_SPACE_MIB[name]}`,
    ...(old === undefined ? [] : [`--max-old-space-size=${old}`]),
    ...(first === undefined ? [] : [`--initial-old-space-size=${first}`]),
    ...(SINGLE_THREADED_SCAVENGE.includes(name) ? ['--no-parallel-scavenge'] : []),
  ]
}

export interface AppContext {
  readonly ports: Ports
  readonly dataDir: string
  readonly cacheDir: string
  readonly stack: Pick<Stack, 'brokers' | 'databaseUrl' | 'redisUrl'>
  readonly secrets: Secrets
  /** The protocol of the operator simulator; `null` if the user has configured an own operator. */
  readonly liveOperator: SimulatorProtocol | null
  /** The environment of the user, for all apps. The settings of the local hub override it. */
  readonly environment: Environment
}

export const baseUrl = (ports: Ports): string => `http://127.0.0.1:${ports.commandApi}`
export const secondBaseUrl = (ports: Ports): string => `http://127.0.0.1:${ports.secondCommandApi}`
export const operationsUrl = (ports: Ports): string => `http://127.0.0.1:${ports.operationsApi}`
export const operatorUrl = (ports: Ports): string => `http://127.0.0.1:${ports.operatorSimulator}`

/**
 * The main module of an app: its bundle, or in another checkout (`bundles`: `null`) its sources, because that
 * checkout may bundle in another way or not at all.
 */
export const appMain = (name: ProgramName, sources: string, bundles: string | null): string =>
  bundles === null ? join(sources, 'apps', name, 'src', 'main.ts') : bundleOf(bundles, name)

/** The folder for the own files of an app, such as its member id. */
const appData = (dataDir: string, name: string): string => join(dataDir, 'apps', name)

/** All processes share the compiled sources. This saves each of them 25 MiB and a third of a second. */
const compileCache = ({ cacheDir }: AppContext): Environment => ({
  NODE_COMPILE_CACHE: join(cacheDir, 'compiled'),
})

const common = (name: ProgramName, context: AppContext): Environment => ({
  // A developer may use servers without TLS.
  HUB_DEPLOYMENT: 'development',
  // The ports of a local hub are not for other machines.
  HUB_LISTEN_HOST: '127.0.0.1',
  ...context.environment,
  HUB_DATABASE_URL: context.stack.databaseUrl,
  HUB_REDIS_URL: context.stack.redisUrl,
  HUB_KAFKA_BROKERS: context.stack.brokers.join(','),
  // A transit engine has the key instead.
  ...(context.environment['HUB_KEY_PROVIDER'] === 'transit'
    ? {}
    : { HUB_MASTER_KEY: context.environment['HUB_MASTER_KEY'] ?? context.secrets.masterKey }),
  HUB_NUMBER_HASH_SECRET: context.environment['HUB_NUMBER_HASH_SECRET'] ?? context.secrets.numberHashSecret,
  HUB_ADMIN_PORT: String(context.ports[ADMIN_PORTS[name]]),
  HUB_DATA_DIR: appData(context.dataDir, name),
  ...compileCache(context),
})

/** The environment of hubctl: the shared settings of the apps, and the addresses of the hub. */
export const hubctlEnvironment = (context: AppContext): Environment => {
  const { HUB_ADMIN_PORT: _port, HUB_DATA_DIR: _folder, ...shared } = common('command-api', context)
  return {
    ...Object.fromEntries(Object.entries(shared).filter(([name]) => name.startsWith('HUB_'))),
    ...operatorAddress(context),
    HUB_BASE_URL: baseUrl(context.ports),
    HUBCTL_ADMIN_URLS: APP_NAMES.map(
      (name) => `${name}=http://127.0.0.1:${context.ports[ADMIN_PORTS[name]]}`,
    ).join(','),
  }
}

/** The system id that the simulator accepts. */
const SMPP_SYSTEM_ID = 'hub'
/** An SMPP password has at most 8 characters. This one is derived from the shared secret. */
const smppPassword = ({ operatorSecret }: Secrets): string =>
  createHmac('sha256', operatorSecret).update('smpp').digest('base64url').slice(0, 8)

/** The vendor-specific codes of the simulator, as in operator-simulator/README.md. */
export const SIMULATOR_SMPP_ERRORS = {
  command_status: { '0x0410': 'spam_filter_content' },
  receipt_error: {
    '001': 'recipient_unreachable',
    '002': 'recipient_nonexistent',
    '003': 'recipient_blocked',
    '011': 'spam_filter_sender',
  },
}

/** The addresses of the operator simulator, without its secrets. */
const operatorAddress = (context: AppContext): Environment =>
  Object.fromEntries(Object.entries(operatorEnvironment(context)).filter(([name]) => name.endsWith('_URL')))

/** The operator settings of the dispatcher. */
const operatorEnvironment = ({ liveOperator, ports, secrets }: AppContext): Environment => {
  switch (liveOperator) {
    case null:
      return {}
    case 'http':
      return {
        HUB_OPERATOR_HTTP_URL: operatorUrl(ports),
        HUB_OPERATOR_HTTP_SECRET: secrets.operatorSecret,
        HUB_OPERATOR_CALLBACK_PORT: String(ports.operatorCallback),
      }
    case 'smpp':
      return {
        HUB_OPERATOR_SMPP_URL: `smpp://${SMPP_SYSTEM_ID}@127.0.0.1:${ports.operatorSmpp}`,
        HUB_OPERATOR_SMPP_PASSWORD: smppPassword(secrets),
        HUB_OPERATOR_SMPP_ERRORS: JSON.stringify(SIMULATOR_SMPP_ERRORS),
      }
  }
}

/** The environment of the first instance of an app. No app gets secrets of another app. */
export const appEnvironment = (name: AppName, context: AppContext): Environment => {
  const { ports } = context
  switch (name) {
    case 'command-api':
      return {
        // A local hub has no load balancer that must first notice the shutdown.
        HUB_SHUTDOWN_DELAY_MS: '0',
        ...common(name, context),
        HUB_PORT: String(ports.commandApi),
        HUB_BASE_URL: baseUrl(ports),
      }
    case 'dispatcher':
      return { ...common(name, context), ...operatorEnvironment(context) }
    case 'projector':
    case 'webhook-fanout':
      return common(name, context)
  }
}

/** The secret of login links, derived from the shared secret. */
const loginSecret = ({ operatorSecret }: Secrets): string =>
  createHmac('sha256', operatorSecret).update('login links').digest('base64url')

/** A link that signs in to the console of a local hub once. */
export const loginLink = (
  { ports, secrets }: Pick<AppContext, 'ports' | 'secrets'>,
  login: { readonly name: string; readonly roles: ReadonlyArray<string> },
): string => localLoginUrl(operationsUrl(ports), loginSecret(secrets), login, Date.now())

/** The environment of operations-api. `consoleDir`: the built files of the console, if it is built. */
export const operationsEnvironment = (context: AppContext, consoleDir: string | null): Environment => ({
  // A local hub has no load balancer that must first notice the shutdown.
  HUB_SHUTDOWN_DELAY_MS: '0',
  ...common(OPERATIONS_API, context),
  HUB_OPERATIONS_PORT: String(context.ports.operationsApi),
  HUB_OPERATIONS_URL: operationsUrl(context.ports),
  HUB_OPERATIONS_LOCAL_SECRET: loginSecret(context.secrets),
  ...(consoleDir === null ? {} : { HUB_CONSOLE_DIR: consoleDir }),
})

/** The settings that differ between the instances of an app. */
export interface InstanceSettings {
  /** The name of the process, its log and its folder, such as `projector-2`. */
  readonly name: string
  readonly adminPort: number
  /** The public port of a further command-api. */
  readonly port?: number
  /** Overrides the environment of the first instance, for example the addresses of servers. */
  readonly environment?: Environment
}

/**
 * The environment of a further instance of an app. A second command-api has the same public address
 * as the first one, as behind a load balancer. Further dispatchers need SMPP, because there is only
 * one port for the callbacks of an HTTP operator.
 */
export const instanceEnvironment = (
  app: AppName,
  { adminPort, environment, name, port }: InstanceSettings,
  context: AppContext,
): Environment => ({
  ...appEnvironment(app, context),
  ...(port === undefined ? {} : { HUB_PORT: String(port) }),
  HUB_ADMIN_PORT: String(adminPort),
  HUB_DATA_DIR: appData(context.dataDir, name),
  ...environment,
})

export const simulatorEnvironment = (context: AppContext): Environment => ({
  PATH: context.environment['PATH'],
  ...compileCache(context),
  HUB_OPERATOR_SIMULATOR_PORT: String(context.ports.operatorSimulator),
  HUB_OPERATOR_SIMULATOR_SMPP_PORT: String(context.ports.operatorSmpp),
  HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID: SMPP_SYSTEM_ID,
  HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD: smppPassword(context.secrets),
  HUB_OPERATOR_HTTP_SECRET: context.secrets.operatorSecret,
  HUB_OPERATOR_CALLBACK_URL: `http://127.0.0.1:${context.ports.operatorCallback}/reports`,
  HUB_OPERATOR_JOURNAL: join(appData(context.dataDir, SIMULATOR), 'journal.jsonl'),
})
