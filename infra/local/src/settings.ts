/** Reads the settings of a local hub from the environment. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { DEFAULT_PORT_BASE, type Ports, portsAt } from './ports.ts'
import { UserError } from './user-error.ts'

/** The root folder of this checkout. */
export const ROOT = resolve(import.meta.dirname, '../../..')

/** The protocol between the dispatcher and the operator simulator. */
const SIMULATOR_PROTOCOLS = ['smpp', 'http'] as const
export type SimulatorProtocol = (typeof SIMULATOR_PROTOCOLS)[number]
const DEFAULT_PROTOCOL: SimulatorProtocol = 'smpp'

export interface Settings {
  readonly ports: Ports
  /** Absolute. A hub writes only below it, except for the folder outside of it in `postgres.ts`. */
  readonly dataDir: string
  /** Absolute. Contains downloads, shared by all checkouts and data folders of a user. */
  readonly cacheDir: string
  /** Running servers to use. The stack does not start these servers. */
  readonly kafkaBrokers: ReadonlyArray<string> | undefined
  readonly databaseUrl: string | undefined
  readonly redisUrl: string | undefined
  /** The protocol of the operator simulator. `null` if the user has configured an own operator. */
  readonly liveOperator: SimulatorProtocol | null
}

export type Environment = Readonly<Record<string, string | undefined>>

const optionalVariable = (environment: Environment, name: string): string | undefined => {
  const value = environment[name]?.trim()
  return value === undefined || value === '' ? undefined : value
}

/** Secrets that `npm start` reads or makes. The apps read the files of the others. */
const SECRETS = ['HUB_DATABASE_URL', 'HUB_REDIS_URL', 'HUB_MASTER_KEY', 'HUB_NUMBER_HASH_SECRET']

const refuseFiles = (environment: Environment): void => {
  const name = SECRETS.find((secret) => optionalVariable(environment, `${secret}_FILE`) !== undefined)
  if (name === undefined) return
  throw new UserError(`npm start does not read ${name}_FILE: set ${name}, or neither of them.`)
}

const liveOperator = (environment: Environment): SimulatorProtocol | null => {
  const isConfigured = ['HUB_OPERATOR_SMPP_URL', 'HUB_OPERATOR_HTTP_URL'].some(
    (name) => optionalVariable(environment, name) !== undefined,
  )
  const asked = optionalVariable(environment, 'HUB_LOCAL_OPERATOR')
  if (asked === undefined) return isConfigured ? null : DEFAULT_PROTOCOL
  if (isConfigured) {
    throw new UserError(
      'HUB_LOCAL_OPERATOR selects the protocol of the operator simulator, but your own operator is configured: unset one of them.',
    )
  }
  const known = SIMULATOR_PROTOCOLS.find((one) => one === asked)
  if (known === undefined) {
    throw new UserError(`HUB_LOCAL_OPERATOR must be ${SIMULATOR_PROTOCOLS.join(' or ')}; it is "${asked}".`)
  }
  return known
}

/**
 * Reads `HUB_PORT_BASE`, `HUB_DATA_DIR`, `HUB_CACHE_DIR`, `HUB_KAFKA_BROKERS`, `HUB_DATABASE_URL`,
 * `HUB_REDIS_URL`, `HUB_LOCAL_OPERATOR`.
 */
export const readSettings = (environment: Environment): Settings => {
  const base = optionalVariable(environment, 'HUB_PORT_BASE')
  if (base !== undefined && !/^\d+$/u.test(base)) {
    throw new UserError(
      `HUB_PORT_BASE must be a whole number, such as ${DEFAULT_PORT_BASE}; it is "${base}".`,
    )
  }
  refuseFiles(environment)
  const cacheHome = optionalVariable(environment, 'XDG_CACHE_HOME')
  return {
    ports: portsAt(base === undefined ? DEFAULT_PORT_BASE : Number(base)),
    dataDir: resolve(ROOT, optionalVariable(environment, 'HUB_DATA_DIR') ?? '.local'),
    cacheDir: resolve(
      ROOT,
      optionalVariable(environment, 'HUB_CACHE_DIR') ??
        join(cacheHome ?? join(homedir(), '.cache'), 'sms-delivery-hub'),
    ),
    kafkaBrokers: optionalVariable(environment, 'HUB_KAFKA_BROKERS')
      ?.split(',')
      .map((broker) => broker.trim())
      .filter((broker) => broker !== ''),
    databaseUrl: optionalVariable(environment, 'HUB_DATABASE_URL'),
    redisUrl: optionalVariable(environment, 'HUB_REDIS_URL'),
    liveOperator: liveOperator(environment),
  }
}
