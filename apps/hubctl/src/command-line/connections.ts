/**
 * The connections of commands. A command opens only what it uses, and only when it starts: help and
 * completion need no server. Each layer includes the settings of the hub.
 */
import { countersLayer } from '@hub/counters'
import {
  catalogueConfig,
  kafkaConnectionConfig,
  layerConsumerGroups,
  layerEventLog,
  layerTopicReader,
  PayloadKeyTopics,
  topicNames,
} from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { Config, Effect, Layer } from 'effect'
import { selectedHub } from '../config.ts'

/** The client name that servers see. */
const CLIENT = 'hubctl'

/** PostgreSQL: `Sql`. */
export const database = Sql.layer(CLIENT).pipe(Layer.provideMerge(selectedHub))

/** PostgreSQL and Redis: `Sql`, `Counters`. */
export const databaseAndRedis = Layer.mergeAll(Sql.layer(CLIENT), countersLayer(CLIENT)).pipe(
  Layer.provideMerge(selectedHub),
)

/** The configuration of Kafka: the connection and the options of the topic catalogue. */
const kafkaConfig = Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])

/** PostgreSQL and Kafka: `Sql`, `EventLog`, `ConsumerGroups`. */
export const databaseAndKafka = Layer.unwrap(
  Effect.map(kafkaConfig, ([connection, { partitions }]) =>
    Layer.mergeAll(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection })),
  ),
).pipe(Layer.merge(Sql.layer(CLIENT)), Layer.provideMerge(selectedHub))

/**
 * PostgreSQL and Kafka, to read encrypted records: `Sql`, `EventLog`, `TopicReader`,
 * `PayloadEncryption`.
 */
export const encryptedRecords = Layer.unwrap(
  Effect.map(kafkaConfig, ([connection, { partitions, prefix }]) =>
    PayloadEncryption.layer.pipe(
      Layer.provide(Layer.merge(MasterKeyEncryption.layer, PayloadKeyTopics.layer(topicNames(prefix)))),
      Layer.provideMerge(
        Layer.mergeAll(
          layerEventLog({ connection, partitions }),
          layerTopicReader({ connection }),
          Sql.layer(CLIENT),
        ),
      ),
    ),
  ),
).pipe(Layer.provideMerge(selectedHub))
