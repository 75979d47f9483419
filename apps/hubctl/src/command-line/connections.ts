/**
 * The connections of commands. A command opens only what it uses, and only when it starts: help and
 * completion need no server. Each layer includes the settings of the hub.
 */
import { printNote, refused } from '@hub/command-line'
import { Counters, countersLayer } from '@hub/counters'
import {
  catalogueConfig,
  ConsumerGroups,
  EventLog,
  kafkaConnectionConfig,
  layerConsumerGroups,
  layerEventLog,
  layerTopicReader,
  PayloadKeyTopics,
  TopicReader,
  topicNames,
} from '@hub/kafka'
import {
  connectedKafka,
  DEADLINE_OF_STAFF,
  findMismatches,
  MasterKeyEncryption,
  ownIdentity,
  PayloadEncryption,
  Sql,
} from '@hub/store'
import { Config, ConfigProvider, Context, Effect, Layer } from 'effect'
import { noServers, selectedApi } from '../api.ts'
import { Environment, selectedHub } from '../config.ts'

/** The client name that servers see. */
const CLIENT = 'hubctl'

/** With `--api`, the operations API instead of the servers and the settings of the hub. */
const orApi = <A, E, R>(
  servers: Layer.Layer<A, E, R>,
  ...services: ReadonlyArray<{ readonly key: string }>
) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const api = yield* selectedApi
      if (api === null) return servers
      yield* printNote(`hubctl: the operations API at ${api.url}`)
      const none = Context.makeUnsafe<A>(new Map(services.map(({ key }) => [key, noServers])))
      return Layer.merge(
        Layer.succeedContext(none),
        ConfigProvider.layer(Effect.map(Environment, (env) => ConfigProvider.fromEnv({ env }))),
      )
    }),
  )

/** No server: the settings of the hub. */
export const settingsOfHub = orApi(selectedHub)

/** A person waits for the result, and prefers a late one to none. */
const sqlLayer = Sql.layer(CLIENT, { deadline: DEADLINE_OF_STAFF })

/**
 * Refuses to work with the secrets of another hub: a search by number would find nothing, and a command
 * with Kafka would read the records of another hub.
 */
const proven = ({ withKafka }: { readonly withKafka: boolean }) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const own = yield* ownIdentity
      const kafka = withKafka ? yield* connectedKafka(CLIENT) : null
      const [mismatch] = yield* findMismatches({ ...own, kafka })
      if (mismatch !== undefined) return yield* refused('not_of_this_hub', mismatch.sentence)
    }),
  )
const provenSql = proven({ withKafka: false }).pipe(Layer.provideMerge(sqlLayer))
const provenServers = proven({ withKafka: true }).pipe(Layer.provideMerge(sqlLayer))

/** PostgreSQL without a comparison of secrets, so that it may still be away: `Sql`. */
export const unprovenDatabase = orApi(sqlLayer.pipe(Layer.provideMerge(selectedHub)), Sql)

/** PostgreSQL: `Sql`. */
export const database = orApi(provenSql.pipe(Layer.provideMerge(selectedHub)), Sql)

/** PostgreSQL and Redis: `Sql`, `Counters`. */
export const databaseAndRedis = orApi(
  Layer.mergeAll(provenSql, countersLayer(CLIENT)).pipe(Layer.provideMerge(selectedHub)),
  Sql,
  Counters,
)

/** The configuration of Kafka: the connection and the options of the topic catalogue. */
const kafkaConfig = Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])

/** PostgreSQL and Kafka: `Sql`, `EventLog`, `ConsumerGroups`. */
export const databaseAndKafka = orApi(
  Layer.unwrap(
    Effect.map(kafkaConfig, ([connection, { partitions }]) =>
      Layer.mergeAll(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection })),
    ),
  ).pipe(Layer.merge(provenServers), Layer.provideMerge(selectedHub)),
  Sql,
  EventLog,
  ConsumerGroups,
)

/**
 * PostgreSQL and Kafka, to read encrypted records: `Sql`, `EventLog`, `TopicReader`,
 * `PayloadEncryption`.
 */
export const encryptedRecords = orApi(
  Layer.unwrap(
    Effect.map(kafkaConfig, ([connection, { partitions, prefix }]) =>
      PayloadEncryption.layer.pipe(
        Layer.provide(Layer.merge(MasterKeyEncryption.layer, PayloadKeyTopics.layer(topicNames(prefix)))),
        Layer.provideMerge(
          Layer.mergeAll(
            layerEventLog({ connection, partitions }),
            layerTopicReader({ connection }),
            provenServers,
          ),
        ),
      ),
    ),
  ).pipe(Layer.provideMerge(selectedHub)),
  Sql,
  EventLog,
  TopicReader,
  PayloadEncryption,
)
