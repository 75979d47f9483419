/** The processes of a local hub and the environment of each. */
import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import type { Ports } from './ports.ts'
import type { Secrets } from './secrets.ts'
import { type LiveOperator, ROOT } from './settings.ts'
import type { Environment, Stack } from './stack.ts'

/** In the order in which they are named everywhere. */
export const APP_NAMES = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const
export type AppName = (typeof APP_NAMES)[number]

export const ADMIN_PORTS = {
  'command-api': 'commandApiAdmin',
  dispatcher: 'dispatcherAdmin',
  projector: 'projectorAdmin',
  'webhook-fanout': 'webhookFanoutAdmin',
} as const satisfies Record<AppName, keyof Ports>

export const SIMULATOR = 'operator-simulator'
/** Another instance of command-api beside the first one: tests of what two of them do at once. */
export const SECOND_COMMAND_API = 'command-api-2'

/** Further instances of the dispatcher beside the first one: tests of shards that change hands. By name, with the admin port. */
export const EXTRA_DISPATCHERS = {
  'dispatcher-2': 'secondDispatcherAdmin',
  'dispatcher-3': 'thirdDispatcherAdmin',
} as const satisfies Record<string, keyof Ports>
export type ExtraDispatcher = keyof typeof EXTRA_DISPATCHERS

/** How Node runs the operator simulator: it does little. */
export const SIMULATOR_FLAGS: ReadonlyArray<string> = ['--max-semi-space-size=8']

/**
 * How Node runs an app, MiB of a half of V8's young generation. It grows to three times 16 under load and keeps it; 8 costs a little more
 * collecting and saves some 10 to 60 MiB a process. Not for command-api: each send leaves garbage, collecting was a sixth of its time, and
 * with 32 it takes 5 % more sends. Nor for the projector, whose polls outlive a small one: collecting was as much of its time, and with 16 it takes a
 * fifth more records. The fan-out has less: bodies from and for sockets lie outside of it and are freed when it is collected, so with 4 a backlog goes
 * out a tenth faster, in 20 MiB less.
 */
const SEMI_SPACE_MIB: Readonly<Record<AppName, number>> = {
  'command-api': 32,
  dispatcher: 8,
  projector: 16,
  'webhook-fanout': 4,
}

/**
 * And of the dispatcher's old one: V8 lets a heap without a limit grow to several times what lives in it before it collects, which behind
 * a backlog of 100,000 was 370 MiB around 70. With a limit it collects sooner; one of 512 MiB made it collect so often that recovering a
 * shard took four times as long. What its messages take, which are counted, is a third of this.
 */
const MAX_OLD_SPACE_MIB: Readonly<Partial<Record<AppName, number>>> = { dispatcher: 768 }

/**
 * And up to where the fan-out's heap grows before all of it is collected for the first time. What comes from and goes to sockets counts, and of
 * that a backlog is made: left to itself V8 begins near what lives there (35 MiB), and collects ten times a second.
 */
const INITIAL_OLD_SPACE_MIB: Readonly<Partial<Record<AppName, number>>> = { 'webhook-fanout': 128 }

/**
 * Whose young generation V8 collects with one thread: the fan-out's. What outlives a collection is 0.3 MB, a third of a
 * millisecond's work, and helpers that are woken for it take the cores from those who deliver: without them a backlog goes out a twentieth faster.
 */
const SINGLE_THREADED_SCAVENGE: ReadonlyArray<AppName> = ['webhook-fanout']

/** The flags of Node that an app is started with. */
export const nodeFlags = (name: AppName): ReadonlyArray<string> => {
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
  /** How live keys reach the operator simulator; `null`: the person has an operator of their own. */
  readonly liveOperator: LiveOperator | null
  /** What the person who starts the hub has set: passed on, below what the hub itself decides. */
  readonly environment: Environment
}

export const baseUrl = (ports: Ports): string => `http://127.0.0.1:${ports.commandApi}`
export const secondBaseUrl = (ports: Ports): string => `http://127.0.0.1:${ports.secondCommandApi}`
export const operatorUrl = (ports: Ports): string => `http://127.0.0.1:${ports.operatorSimulator}`

/** `sources`: the checkout it is run from. */
export const appMain = (name: AppName, sources: string): string =>
  join(sources, 'apps', name, 'src', 'main.ts')
export const simulatorMain = join(ROOT, 'infra/local/operator-simulator/main.ts')

/** Where an app keeps what is its own, such as its member id. */
const appData = (dataDir: string, name: string): string => join(dataDir, 'apps', name)

const common = (name: AppName, context: AppContext): Environment => ({
  ...context.environment,
  HUB_DATABASE_URL: context.stack.databaseUrl,
  HUB_REDIS_URL: context.stack.redisUrl,
  HUB_KAFKA_BROKERS: context.stack.brokers.join(','),
  HUB_MASTER_KEY: context.environment['HUB_MASTER_KEY'] ?? context.secrets.masterKey,
  HUB_NUMBER_HASH_SECRET: context.environment['HUB_NUMBER_HASH_SECRET'] ?? context.secrets.numberHashSecret,
  HUB_ADMIN_PORT: String(context.ports[ADMIN_PORTS[name]]),
  HUB_DATA_DIR: appData(context.dataDir, name),
  // Sources are stripped of their types and compiled once a machine, not in every process: 25 MiB and a third of a second each.
  NODE_COMPILE_CACHE: join(context.cacheDir, 'compiled'),
})

/**
 * What hubctl needs to talk to this hub: what its apps share, and where it answers. Whatever else of the hub's was set for the apps goes with it.
 */
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

/** Whom the simulator lets bind. */
const SMPP_SYSTEM_ID = 'hub'
/** SMPP passwords have 8 characters at most; this one is a part of what the two share anyway. */
const smppPassword = ({ operatorSecret }: Secrets): string =>
  createHmac('sha256', operatorSecret).update('smpp').digest('base64url').slice(0, 8)

/** What the simulator's own codes mean; operator-simulator/README.md lists them. */
const SMPP_ERRORS = {
  command_status: { '0x0410': 'spam_filter_content' },
  receipt_error: {
    '001': 'recipient_unreachable',
    '002': 'recipient_nonexistent',
    '003': 'recipient_blocked',
    '011': 'spam_filter_sender',
  },
}

/** Where the operator simulator is, without what opens it. */
const operatorAddress = (context: AppContext): Environment =>
  Object.fromEntries(Object.entries(operatorEnvironment(context)).filter(([name]) => name.endsWith('_URL')))

/** The dispatcher's way to the operator simulator. */
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
        HUB_OPERATOR_SMPP_ERRORS: JSON.stringify(SMPP_ERRORS),
      }
  }
}

/** The environment of an app. Every app gets what it needs and no other app's secrets. */
export const appEnvironment = (name: AppName, context: AppContext): Environment => {
  const { ports } = context
  switch (name) {
    case 'command-api':
      return {
        // No load balancer asks a local hub's readiness.
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

/** As the first one's, except for what only one process can have. The public address is the same, as behind a load balancer. */
export const secondCommandApiEnvironment = (context: AppContext): Environment => ({
  ...appEnvironment('command-api', context),
  HUB_PORT: String(context.ports.secondCommandApi),
  HUB_ADMIN_PORT: String(context.ports.secondCommandApiAdmin),
  HUB_DATA_DIR: appData(context.dataDir, SECOND_COMMAND_API),
})

/** As the first one's, except for what only one process can have. Over SMPP only: callbacks over HTTP have one port. */
export const extraDispatcherEnvironment = (name: ExtraDispatcher, context: AppContext): Environment => ({
  ...appEnvironment('dispatcher', context),
  HUB_ADMIN_PORT: String(context.ports[EXTRA_DISPATCHERS[name]]),
  HUB_DATA_DIR: appData(context.dataDir, name),
})

/** What only one process of an app can have. */
export interface InstanceSettings {
  /** Names the process, its log and its folder, such as `projector-2`. */
  readonly name: string
  readonly adminPort: number
}

/** As the first one's, except for what only one process can have. */
export const instanceEnvironment = (
  app: Exclude<AppName, 'command-api'>,
  { adminPort, name }: InstanceSettings,
  context: AppContext,
): Environment => ({
  ...appEnvironment(app, context),
  HUB_ADMIN_PORT: String(adminPort),
  HUB_DATA_DIR: appData(context.dataDir, name),
})

export const simulatorEnvironment = (context: AppContext): Environment => ({
  PATH: context.environment['PATH'],
  HUB_OPERATOR_SIMULATOR_PORT: String(context.ports.operatorSimulator),
  HUB_OPERATOR_SIMULATOR_SMPP_PORT: String(context.ports.operatorSmpp),
  HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID: SMPP_SYSTEM_ID,
  HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD: smppPassword(context.secrets),
  HUB_OPERATOR_HTTP_SECRET: context.secrets.operatorSecret,
  HUB_OPERATOR_CALLBACK_URL: `http://127.0.0.1:${context.ports.operatorCallback}/reports`,
  HUB_OPERATOR_JOURNAL: join(appData(context.dataDir, SIMULATOR), 'journal.jsonl'),
})
