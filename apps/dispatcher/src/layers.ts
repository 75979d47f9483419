/** The connections and the keys of the dispatcher. */
import { sharedTextsLayer } from '@hub/counters'
import { layerConsumer } from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { Layer } from 'effect'
import { APP } from './membership/identity.ts'
import { layerPostgresStore } from './store/postgres-store.ts'

export const layers = Layer.mergeAll(layerPostgresStore, PayloadEncryption.layer, sharedTextsLayer(APP)).pipe(
  Layer.provideMerge(MasterKeyEncryption.layer),
  Layer.provideMerge(Sql.layer(APP)),
  Layer.provideMerge(layerConsumer(APP)),
)
