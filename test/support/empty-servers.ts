/** Deletes all data of servers, so that another hub can begin on them. */
import { DATABASE } from '@hub/local-stack'
import { eventually, openDatabase } from '@hub/testkit'
import { Redis } from 'ioredis'
import kafkajs from 'kafkajs'

interface Servers {
  readonly brokers: ReadonlyArray<string>
  readonly adminDatabaseUrl: string
  readonly redisUrl: string
  /** A process; `pid` throws while it does not run. */
  readonly server: (name: 'kafka' | 'postgres' | 'redis') => { readonly pid: () => number }
}

/** Servers in order need a second on a busy machine. Others are worth no wait. */
const WITHIN_MS = 15_000

const emptyDatabases = async ({ adminDatabaseUrl }: Servers): Promise<void> => {
  const sql = openDatabase(adminDatabaseUrl)
  try {
    const databases = await sql<{ name: string }[]>`
      SELECT datname AS name FROM pg_database WHERE NOT datistemplate AND datname <> current_database()`
    for (const { name } of databases) await sql`DROP DATABASE ${sql(name)} WITH (FORCE)`
    await sql`CREATE DATABASE ${sql(DATABASE)}`
  } finally {
    await sql.end()
  }
}

/** Fails while a group has members. Kafka expects the members of killed processes for seconds. */
const emptyKafka = async ({ brokers }: Servers): Promise<void> => {
  const { NOTHING } = kafkajs.logLevel
  const admin = new kafkajs.Kafka({ brokers: [...brokers], clientId: 'empty', logLevel: NOTHING }).admin()
  await admin.connect()
  try {
    const topics = async () => (await admin.listTopics()).filter((name) => !name.startsWith('__'))
    const { groups } = await admin.listGroups()
    if (groups.length > 0) await admin.deleteGroups(groups.map(({ groupId }) => groupId))
    await admin.deleteTopics({ topics: await topics() })
    // The broker learns of the deletion a moment later, and would tell the next hub of existing topics.
    await eventually(async () => (await topics()).length === 0, { withinMs: WITHIN_MS })
  } finally {
    await admin.disconnect()
  }
}

const emptyRedis = async ({ redisUrl }: Servers): Promise<void> => {
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: 0 })
  try {
    await redis.flushall()
  } finally {
    redis.disconnect()
  }
}

/** Rejects if a server does not run, does not answer, or still has members of a group. */
export const emptyServers = async (servers: Servers): Promise<void> => {
  for (const name of ['kafka', 'postgres', 'redis'] as const) servers.server(name).pid()
  const late = AbortSignal.timeout(WITHIN_MS)
  const tooLate = new Promise<never>((_resolve, reject) => {
    late.addEventListener('abort', () => reject(late.reason as Error))
  })
  await Promise.race([
    Promise.all([emptyDatabases(servers), emptyKafka(servers), emptyRedis(servers)]),
    tooLate,
  ])
}
