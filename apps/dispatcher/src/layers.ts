/** The connections and the keys of the dispatcher. */
import { sharedTextsLayer } from '@hub/counters'
import {
  catalogueConfig,
  kafkaConnectionConfig,
  layerConsumerGroups,
  layerEventLog,
  layerKeysAndErasures,
  topicNames,
} from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { APP } from './membership/identity.ts'
import { layerPostgresStore } from './store/postgres-store.ts'

const kafka = Layer.unwrap(
  Effect.gen(function* () {
    const connection = yield* kafkaConnectionConfig(APP)
    const { partitions, prefix } = yield* catalogueConfig
    return Layer.merge(
      layerKeysAndErasures(connection, topicNames(prefix)),
      layerConsumerGroups({ connection }),
    ).pipe(Layer.provideMerge(layerEventLog({ connection, partitions })))
  }),
)

export const layers = Layer.mergeAll(layerPostgresStore, PayloadEncryption.layer, sharedTextsLayer(APP)).pipe(
  Layer.provideMerge(MasterKeyEncryption.layer),
  Layer.provideMerge(Sql.layer(APP)),
  Layer.provideMerge(kafka),
)
