/**
 * Backs up and restores the servers of a test hub as docs/operating.md describes it: PostgreSQL
 * while it runs, and the topics record by record.
 */
import {
  chownSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createTopics, EventLog, type IncomingRecord, layerEventLog, topicCatalogue } from '@hub/kafka'
import { openDatabase } from '@hub/testkit'
import { Effect } from 'effect'
import postgres from 'postgres'
import { readTopic } from './read-topic.ts'

/**
 * Files of the running server that are not part of a backup. Source: PostgreSQL, "Backing Up the
 * Data Directory".
 */
const NOT_COPIED: ReadonlySet<string> = new Set([
  'postmaster.pid',
  'postmaster.opts',
  'pg_wal',
  'pg_replslot',
])

/**
 * Copies a folder while its files may change. The write-ahead log repairs a torn copy. Owners and
 * permissions stay the same.
 */
const copyTree = (from: string, to: string, notCopied: ReadonlySet<string>): void => {
  const found = lstatSync(from)
  if (found.isSymbolicLink()) return symlinkSync(readlinkSync(from), to)
  if (found.isDirectory()) {
    mkdirSync(to, { mode: found.mode & 0o7777 })
    for (const name of readdirSync(from)) {
      if (notCopied.has(name)) continue
      try {
        copyTree(join(from, name), join(to, name), new Set())
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      }
    }
  } else copyFileSync(from, to)
  chownSync(to, found.uid, found.gid)
}

/**
 * Does what `pg_basebackup` does, for servers without it: makes a base backup with the write-ahead
 * log that it needs. `to` must not exist.
 */
export const backUpDatabase = async (databaseUrl: string, to: string): Promise<void> => {
  // `pg_backup_start` and `pg_backup_stop` must run on one connection.
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    const [setting] = await sql<[{ data_directory: string }]>`SHOW data_directory`
    const from = setting.data_directory
    await sql`SELECT pg_backup_start('test', true)`
    copyTree(from, to, NOT_COPIED)
    const [stop] = await sql<[{ labelfile: string }]>`SELECT labelfile FROM pg_backup_stop(false)`
    writeFileSync(join(to, 'backup_label'), stop.labelfile)
    copyTree(join(from, 'pg_wal'), join(to, 'pg_wal'), new Set())
    const { gid, uid } = lstatSync(from)
    mkdirSync(join(to, 'pg_replslot'), { mode: 0o700 })
    for (const created of ['backup_label', 'pg_replslot']) chownSync(join(to, created), uid, gid)
  } finally {
    await sql.end()
  }
}

/**
 * A row of `command.sealing_keys`: a key of reports or of data at rest, wrapped by the master key.
 * Reports in the topics are readable only with these rows.
 */
type PayloadKeyRow = Readonly<Record<string, string | number | Buffer | Date | null>>

export const readPayloadKeys = async (databaseUrl: string): Promise<ReadonlyArray<PayloadKeyRow>> => {
  const sql = openDatabase(databaseUrl)
  try {
    return [...(await sql<Array<PayloadKeyRow>>`SELECT * FROM command.sealing_keys`)]
  } finally {
    await sql.end()
  }
}

/** Inserts keys. It does not change keys that exist. */
export const writePayloadKeys = async (
  databaseUrl: string,
  rows: ReadonlyArray<PayloadKeyRow>,
): Promise<void> => {
  const sql = openDatabase(databaseUrl)
  try {
    await sql`INSERT INTO command.sealing_keys ${sql(rows)} ON CONFLICT (id) DO NOTHING`
  } finally {
    await sql.end()
  }
}

const PARTITIONS = 6
const catalogue = topicCatalogue({ prefix: '', partitions: PARTITIONS, replicationFactor: 1 })
/** Records in one append. */
const CHUNK = 1000

type TopicCopies = ReadonlyMap<string, ReadonlyArray<IncomingRecord>>

/** Reads every record of every topic, in order within each partition. */
export const readTopicCopies = async (brokers: ReadonlyArray<string>): Promise<TopicCopies> =>
  new Map(
    await Promise.all(catalogue.map(async ({ topic }) => [topic, await readTopic(brokers, topic)] as const)),
  )

/**
 * Creates the topics on another cluster and appends the records to their old partitions, so that
 * the offsets stay the same.
 */
export const replayTopics = (brokers: ReadonlyArray<string>, copies: TopicCopies): Promise<void> => {
  const connection = { brokers, clientId: 'restore' }
  return Effect.runPromise(
    Effect.gen(function* () {
      yield* createTopics(connection, catalogue)
      const log = yield* EventLog
      for (const [topic, records] of copies) {
        for (let from = 0; from < records.length; from += CHUNK) {
          yield* log.append(
            records
              .slice(from, from + CHUNK)
              .map(({ id, key, occurredAt, partition, traceparent, type, value }) => ({
                topic,
                partition,
                key,
                type,
                id,
                occurredAt,
                value,
                ...(traceparent === null ? {} : { traceparent }),
              })),
            { deadlineMs: 30_000 },
          )
        }
      }
    }).pipe(Effect.provide(layerEventLog({ connection, partitions: PARTITIONS }))),
  )
}
