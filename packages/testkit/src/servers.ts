/**
 * The servers that the test runner has started, and separate databases and topic prefixes on them.
 */
import { randomBytes } from 'node:crypto'
import { migrate } from '@hub/store'
import { Effect } from 'effect'
import postgres from 'postgres'

const required = (name: string): string => {
  const value = process.env[name]
  if (value === undefined || value === '') {
    throw new Error(
      `${name} is not set. Run these tests with \`npm test\` or \`npm run test:int\`, which start the servers.`,
    )
  }
  return value
}

/** The shared Kafka brokers, each as `host:port`. */
export const testBrokers = (): ReadonlyArray<string> => required('HUB_TEST_KAFKA').split(',')
export const testRedisUrl = (): string => required('HUB_TEST_REDIS_URL')
/** The URL of a database with the right to create and drop other databases. */
export const testDatabaseUrl = (): string => required('HUB_TEST_DATABASE_URL')

/** A new, random topic prefix. */
export const topicPrefix = (): string => `t${randomBytes(6).toString('hex')}.`

export interface FreshDatabase {
  readonly url: string
  /** Drops the database, even while clients are connected. */
  readonly drop: () => Promise<void>
}

/**
 * Creates an empty database with the hub's schema. `admin` is the URL of a database whose user may
 * create others; default: the database of the shared test servers.
 */
export const freshDatabase = async (admin: string = testDatabaseUrl()): Promise<FreshDatabase> => {
  const name = `hub_test_${randomBytes(6).toString('hex')}`
  const asAdmin = async (statement: string): Promise<void> => {
    const sql = postgres(admin, { max: 1, onnotice: () => {} })
    try {
      await sql.unsafe(statement)
    } finally {
      await sql.end()
    }
  }
  await asAdmin(`CREATE DATABASE ${name}`)
  const url = Object.assign(new URL(admin), { pathname: `/${name}` }).toString()
  const drop = (): Promise<void> => asAdmin(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  try {
    await Effect.runPromise(migrate(url))
  } catch (error) {
    await drop()
    throw error
  }
  return { url, drop }
}

/** Opens at most two connections to a hub's database. Close them with `end`. */
export const openDatabase = (url: string): postgres.Sql => postgres(url, { max: 2, onnotice: () => {} })
