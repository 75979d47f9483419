/** Backups as docs/operating.md describes them, of a hub's own servers: PostgreSQL while it works, topics record by record. */
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

/** What belongs to the running server and not to its data. Source: PostgreSQL, "Backing Up the Data Directory". */
const LEFT_OUT: ReadonlySet<string> = new Set(['postmaster.pid', 'postmaster.opts', 'pg_wal', 'pg_replslot'])

/** Copies a folder whose files may come, go and change meanwhile: the write-ahead log mends what that tears. Owners and rights stay. */
const copyTree = (from: string, to: string, leaveOut: ReadonlySet<string>): void => {
  const found = lstatSync(from)
  if (found.isSymbolicLink()) return symlinkSync(readlinkSync(from), to)
  if (found.isDirectory()) {
    mkdirSync(to, { mode: found.mode & 0o7777 })
    for (const name of readdirSync(from)) {
      if (leaveOut.has(name)) continue
      try {
        copyTree(join(from, name), join(to, name), new Set())
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      }
    }
  } else copyFileSync(from, to)
  chownSync(to, found.uid, found.gid)
}

/** `pg_basebackup` by hand, for servers without it: a base backup with all that it needs of the write-ahead log. `to` must not exist. */
export const backUpDatabase = async (databaseUrl: string, to: string): Promise<void> => {
  // Beginning and end belong to one connection.
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    const [place] = await sql<[{ data_directory: string }]>`SHOW data_directory`
    const from = place.data_directory
    await sql`SELECT pg_backup_start('test', true)`
    copyTree(from, to, LEFT_OUT)
    const [stop] = await sql<[{ labelfile: string }]>`SELECT labelfile FROM pg_backup_stop(false)`
    writeFileSync(join(to, 'backup_label'), stop.labelfile)
    copyTree(join(from, 'pg_wal'), join(to, 'pg_wal'), new Set())
    const { gid, uid } = lstatSync(from)
    mkdirSync(join(to, 'pg_replslot'), { mode: 0o700 })
    for (const made of ['backup_label', 'pg_replslot']) chownSync(join(to, made), uid, gid)
  } finally {
    await sql.end()
  }
}

/** A row of `command.sealing_keys`, which is all that opens what the topics hold. It is wrapped by the master key. */
type SealingKeyRow = Readonly<Record<string, string | number | Buffer | Date | null>>

export const readSealingKeys = async (databaseUrl: string): Promise<ReadonlyArray<SealingKeyRow>> => {
  const sql = openDatabase(databaseUrl)
  try {
    return [...(await sql<Array<SealingKeyRow>>`SELECT * FROM command.sealing_keys`)]
  } finally {
    await sql.end()
  }
}

/** What is there already stays as it is. */
export const writeSealingKeys = async (
  databaseUrl: string,
  rows: ReadonlyArray<SealingKeyRow>,
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
/** Records of one append. */
const CHUNK = 1000

type TopicCopies = ReadonlyMap<string, ReadonlyArray<IncomingRecord>>

/** Every record of every topic, in order within each partition. */
export const readTopicCopies = async (brokers: ReadonlyArray<string>): Promise<TopicCopies> =>
  new Map(
    await Promise.all(catalogue.map(async ({ topic }) => [topic, await readTopic(brokers, topic)] as const)),
  )

/** Makes the topics on another cluster and appends the records to the partitions that they were in, so that offsets are the same. */
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
