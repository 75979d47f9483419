/** Where a local hub lives, read from the environment once. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { DEFAULT_PORT_BASE, type Ports, portsAt } from './ports.ts'
import { Problem } from './problem.ts'

/** The checkout this file belongs to. */
export const ROOT = resolve(import.meta.dirname, '../../..')

export interface Settings {
  readonly ports: Ports
  /** Absolute. Everything a hub writes is below it (and see `postgres.ts` for the one exception). */
  readonly dataDir: string
  /** Absolute. Downloads, shared by every checkout and data folder of a person. */
  readonly cacheDir: string
  /** Servers that are used instead of being started. */
  readonly kafkaBrokers: ReadonlyArray<string> | undefined
  readonly databaseUrl: string | undefined
  readonly redisUrl: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

const given = (environment: Environment, name: string): string | undefined => {
  const value = environment[name]?.trim()
  return value === undefined || value === '' ? undefined : value
}

/** Reads `HUB_PORT_BASE`, `HUB_DATA_DIR`, `HUB_CACHE_DIR`, `HUB_KAFKA_BROKERS`, `HUB_DATABASE_URL`, `HUB_REDIS_URL`. */
export const readSettings = (environment: Environment): Settings => {
  const base = given(environment, 'HUB_PORT_BASE')
  if (base !== undefined && !/^\d+$/u.test(base)) {
    throw new Problem(`HUB_PORT_BASE must be a whole number, such as ${DEFAULT_PORT_BASE}; it is "${base}".`)
  }
  const cacheHome = given(environment, 'XDG_CACHE_HOME')
  return {
    ports: portsAt(base === undefined ? DEFAULT_PORT_BASE : Number(base)),
    dataDir: resolve(ROOT, given(environment, 'HUB_DATA_DIR') ?? '.local'),
    cacheDir: resolve(
      ROOT,
      given(environment, 'HUB_CACHE_DIR') ?? join(cacheHome ?? join(homedir(), '.cache'), 'sms-delivery-hub'),
    ),
    kafkaBrokers: given(environment, 'HUB_KAFKA_BROKERS')
      ?.split(',')
      .map((broker) => broker.trim())
      .filter((broker) => broker !== ''),
    databaseUrl: given(environment, 'HUB_DATABASE_URL'),
    redisUrl: given(environment, 'HUB_REDIS_URL'),
  }
}
