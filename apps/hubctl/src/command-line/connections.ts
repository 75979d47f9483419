/**
 * What commands work with. Layers are made when a command begins, not before: help and completion need no server, and a command connects to
 * nothing that it does not use. Each includes the settings of the hub.
 */
import { catalogueConfig, kafkaConnectionConfig, layerConsumerGroups, layerEventLog } from '@hub/kafka'
import { countersLayer } from '@hub/counters'
import { Sql } from '@hub/store'
import { Config, Effect, Layer } from 'effect'
import { settings } from '../config.ts'

/** How servers see us. */
export const CLIENT = 'hubctl'

/** PostgreSQL: `Sql`. */
export const database = Sql.layer(CLIENT).pipe(Layer.provideMerge(settings))

/** PostgreSQL and Redis: `Sql`, `Counters`. */
export const stores = Layer.mergeAll(Sql.layer(CLIENT), countersLayer(CLIENT)).pipe(
  Layer.provideMerge(settings),
)

/** PostgreSQL and Kafka: `Sql`, `EventLog`, `ConsumerGroups`. */
export const bus = Layer.unwrap(
  Effect.map(Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig]), ([connection, { partitions }]) =>
    Layer.mergeAll(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection })),
  ),
).pipe(Layer.merge(Sql.layer(CLIENT)), Layer.provideMerge(settings))
