/** The connections and the keys of the projector. */
import { layerConsumer } from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { Layer } from 'effect'
import { APP } from './config.ts'
import { layerEventOutboxStore } from './events/event-outbox.ts'
import { layerPostgresStore } from './store/postgres-store.ts'

export const layers = Layer.mergeAll(PayloadEncryption.layer, layerPostgresStore, layerEventOutboxStore).pipe(
  Layer.provideMerge(
    Layer.mergeAll(Sql.layer(`hub-${APP}`), MasterKeyEncryption.layer, layerConsumer(`hub-${APP}`)),
  ),
)
