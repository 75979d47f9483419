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

/** An empty database with the hub's schema. A copy of it takes a fifth of the time of the migrations. */
const TEMPLATE = 'hub_test_template'
/** The key of the advisory lock for its creation: any number, the same in every process. */
const LOCK = 5_310_118

const urlOf = (admin: string, database: string): string =>
  Object.assign(new URL(admin), { pathname: `/${database}` }).toString()

/** Creates the template on a server, unless it exists. */
const ensureTemplate = async (sql: postgres.Sql, admin: string): Promise<void> => {
  // The lock belongs to the session, and the pool has a single one.
  await sql`SELECT pg_advisory_lock(${LOCK})`
  try {
    const found = await sql`SELECT 1 FROM pg_database WHERE datname = ${TEMPLATE}`
    if (found.length > 0) return
    const unfinished = `${TEMPLATE}_unfinished`
    await sql`DROP DATABASE IF EXISTS ${sql(unfinished)} WITH (FORCE)`
    await sql`CREATE DATABASE ${sql(unfinished)}`
    await Effect.runPromise(migrate(urlOf(admin, unfinished)))
    await sql`ALTER DATABASE ${sql(unfinished)} RENAME TO ${sql(TEMPLATE)}`
  } finally {
    await sql`SELECT pg_advisory_unlock(${LOCK})`
  }
}

/**
 * Creates an empty database with the hub's schema. `admin` is the URL of a database whose user may
 * create others; default: the database of the shared test servers.
 */
export const freshDatabase = async (admin: string = testDatabaseUrl()): Promise<FreshDatabase> => {
  const name = `hub_test_${randomBytes(6).toString('hex')}`
  const asAdmin = async (run: (sql: postgres.Sql) => Promise<unknown>): Promise<void> => {
    const sql = postgres(admin, { max: 1, onnotice: () => {} })
    try {
      await run(sql)
    } finally {
      await sql.end()
    }
  }
  await asAdmin(async (sql) => {
    await ensureTemplate(sql, admin)
    await sql`CREATE DATABASE ${sql(name)} TEMPLATE ${sql(TEMPLATE)}`
  })
  return {
    url: urlOf(admin, name),
    drop: () => asAdmin((sql) => sql`DROP DATABASE IF EXISTS ${sql(name)} WITH (FORCE)`),
  }
}

/** Opens at most two connections to a hub's database. Close them with `end`. */
export const openDatabase = (url: string): postgres.Sql => postgres(url, { max: 2, onnotice: () => {} })
