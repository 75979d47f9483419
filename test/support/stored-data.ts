/** Reads everything that a hub stores, in pieces: tables, topics, Redis, log files and metrics. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeRecord, topicCatalogue } from '@hub/kafka'
import { openDatabase } from '@hub/testkit'
import { type TestHub } from './hub.ts'
import { Result } from 'effect'
import { Redis } from 'ioredis'
import type { StoredData } from './secret-search.ts'
import { readTopic } from './read-topic.ts'

const bytesOf = (value: unknown): Buffer =>
  Buffer.isBuffer(value)
    ? value
    : Buffer.from(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))

/** Reads every column of every row of the hub tables. Binary columns stay bytes. */
const tablePieces = async (databaseUrl: string): Promise<ReadonlyArray<StoredData>> => {
  const sql = openDatabase(databaseUrl)
  try {
    const tables = await sql<{ schema: string; table: string }[]>`
      SELECT n.nspname AS schema, c.relname AS table FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
       ORDER BY 1, 2`
    const pieces: Array<StoredData> = []
    for (const { schema, table } of tables) {
      for (const row of await sql`SELECT * FROM ${sql(schema)}.${sql(table)}`) {
        for (const [column, value] of Object.entries(row)) {
          if (value !== null) pieces.push({ where: `${schema}.${table}.${column}`, bytes: bytesOf(value) })
        }
      }
    }
    return pieces
  } finally {
    await sql.end()
  }
}

/** Returns the strings and bytes at any depth of a decoded record. */
const leavesOf = (value: unknown): ReadonlyArray<Buffer> => {
  if (value instanceof Uint8Array) return [Buffer.from(value)]
  if (typeof value === 'string') return [Buffer.from(value)]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(leavesOf) : []
}

/** Reads every record of every topic, encoded and decoded. */
const topicPieces = async (brokers: ReadonlyArray<string>): Promise<ReadonlyArray<StoredData>> => {
  const pieces: Array<StoredData> = []
  for (const { topic } of topicCatalogue({ prefix: '', partitions: 1, replicationFactor: 1 })) {
    for (const { id, key, traceparent, type, value } of await readTopic(brokers, topic)) {
      const where = `${topic} ${type}`
      pieces.push({ where: `${where}, encoded`, bytes: value })
      pieces.push({ where: `${where}, metadata`, bytes: bytesOf({ id, key, traceparent, type }) })
      const decoded = decodeRecord(value)
      if (Result.isSuccess(decoded)) {
        pieces.push(...leavesOf(decoded.success).map((bytes) => ({ where: `${where}, decoded`, bytes })))
      }
    }
  }
  return pieces
}

const valueOf = (redis: Redis, key: string, type: string): Promise<unknown> => {
  switch (type) {
    case 'string':
      return redis.get(key)
    case 'list':
      return redis.lrange(key, 0, -1)
    case 'set':
      return redis.smembers(key)
    case 'zset':
      return redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES')
    case 'hash':
      return redis.hgetall(key)
    default:
      throw new Error(`Redis contains a value of type ${type}: add a case for it here`)
  }
}

/** Reads every Redis key and its value. */
const redisPieces = async (url: string): Promise<ReadonlyArray<StoredData>> => {
  const redis = new Redis(url)
  try {
    const pieces: Array<StoredData> = []
    for (const key of await redis.keys('*')) {
      const value = await valueOf(redis, key, await redis.type(key))
      pieces.push({ where: `Redis ${key}`, bytes: bytesOf([key, value]) })
    }
    return pieces
  } finally {
    redis.disconnect()
  }
}

/**
 * Reads the log files of the apps and servers. The operator simulator is not part of the hub and
 * logs numbers.
 */
const logPieces = (hub: TestHub): ReadonlyArray<StoredData> =>
  readdirSync(hub.dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.log') && !entry.name.includes('operator'))
    // Kafka names its log segments like this. They are read as records.
    .filter((entry) => !/^\d{20}\.log$/u.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({ where: `log ${file.slice(hub.dataDir.length + 1)}`, bytes: readFileSync(file) }))

/** Reads the metrics of every app. */
const metricPieces = (hub: TestHub): Promise<ReadonlyArray<StoredData>> =>
  Promise.all(
    Object.entries(hub.describe().metrics_urls).map(async ([app, url]) => ({
      where: `metrics of ${app}`,
      bytes: Buffer.from(await (await fetch(url)).arrayBuffer()),
    })),
  )

/** Reads everything. */
export const readAllStoredData = async (hub: TestHub): Promise<ReadonlyArray<StoredData>> => {
  const { database_url, kafka, redis_url } = hub.describe()
  return [
    ...(await tablePieces(database_url)),
    ...(await topicPieces(kafka.brokers)),
    ...(await redisPieces(redis_url)),
    ...logPieces(hub),
    ...(await metricPieces(hub)),
  ]
}
