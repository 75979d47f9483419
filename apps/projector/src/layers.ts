/** The connections and the keys of the projector. */
import { layerConsumerGroups, layerEventLog, layerKeysAndErasures, topicNames } from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { APP, configuration } from './config.ts'
import { layerPostgresStore } from './store/postgres-store.ts'

const kafka = Layer.unwrap(
  Effect.map(configuration, ({ catalogue: { partitions, prefix }, connection }) =>
    Layer.merge(
      layerKeysAndErasures(connection, topicNames(prefix)),
      layerConsumerGroups({ connection }),
    ).pipe(Layer.provideMerge(layerEventLog({ connection, partitions }))),
  ),
)
export const layers = Layer.merge(PayloadEncryption.layer, layerPostgresStore).pipe(
  Layer.provideMerge(Layer.mergeAll(Sql.layer(`hub-${APP}`), MasterKeyEncryption.layer, kafka)),
)
