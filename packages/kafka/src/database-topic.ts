/**
 * The topic that names the database of the hub. It survives a change of the database, so that a process
 * with another one is found (docs/decisions/deployment.md#proof-of-secrets).
 */
import { Clock, Effect, Result } from 'effect'
import type { KafkaConnection } from './connection/client.ts'
import { layerEventLog } from './log/event-log.ts'
import { layerTopicReader } from './log/topic-reader.ts'
import { EventLog, type KafkaUnavailable, TopicReader } from './port.ts'
import { decodeDatabaseAccepted } from './records/codec.ts'
import { databaseAcceptedRecord } from './records/outgoing.ts'
import type { KafkaRequestRejected } from './topics/admin.ts'
import type { TopicNames } from './topics/catalogue.ts'
import { readOffsetRanges } from './topics/inspect.ts'

const topicExists = (connection: KafkaConnection, topic: string) =>
  Effect.map(readOffsetRanges(connection, [topic]), (ranges) => ranges.has(topic))

/**
 * The database of the hub. `null`: none was recorded yet, or a hub of an earlier version has created the
 * topics, so that this one is missing until `hubctl topics apply`.
 */
export const acceptedDatabase = (
  connection: KafkaConnection,
  topics: TopicNames,
): Effect.Effect<string | null, KafkaUnavailable | KafkaRequestRejected> =>
  Effect.gen(function* () {
    if (!(yield* topicExists(connection, topics.database))) return null
    const records = yield* Effect.provide(
      Effect.flatMap(TopicReader, (reader) => reader.readAll(topics.database)),
      layerTopicReader({ connection }),
    )
    // Kafka compacts the topic later.
    const last = records.map(decodeDatabaseAccepted).filter(Result.isSuccess).at(-1)
    return last?.success.database ?? null
  })

/** Makes a database the one of the hub. Returns false, and changes nothing, while the topic is missing. */
export const acceptDatabase = (
  connection: KafkaConnection,
  topics: TopicNames,
  database: string,
): Effect.Effect<boolean, KafkaUnavailable | KafkaRequestRejected> =>
  Effect.gen(function* () {
    if (!(yield* topicExists(connection, topics.database))) return false
    const record = databaseAcceptedRecord(topics, {
      type: 'DatabaseAccepted',
      database,
      at: yield* Clock.currentTimeMillis,
    })
    yield* Effect.provide(
      Effect.flatMap(EventLog, (log) => log.append([record])),
      layerEventLog({ connection, partitions: 1 }),
    )
    return true
  })
