/** The connections, the keys and the webhook client of the fan-out. */
// Imported by its own path, because the whole package takes 25 MB more.
import * as NodeFileSystem from '@effect/platform-node/NodeFileSystem'
import { layerConsumer } from '@hub/kafka'
import { MasterKeyEncryption, Sql } from '@hub/store'
import { AddressPolicy, WebhookClient } from '@hub/webhooks'
import { Layer } from 'effect'
import { APP } from './config.ts'
import { layerPostgresStore } from './store/postgres-store.ts'

/**
 * Connections to PostgreSQL: two read due batches, the others store and record. Each server process
 * behind a connection has its own plans and caches, and statements rotate over all of them, so few
 * connections are faster (docs/decisions/webhook-throughput.md#scan-cursor).
 */
const CONNECTIONS = 4

const store = layerPostgresStore.pipe(
  Layer.provideMerge(
    Layer.mergeAll(Sql.layer(`hub-${APP}`, { maxConnections: CONNECTIONS }), MasterKeyEncryption.layer),
  ),
)
const client = WebhookClient.layer.pipe(
  Layer.provide(Layer.mergeAll(AddressPolicy.layer, NodeFileSystem.layer)),
)

export const layers = Layer.mergeAll(layerConsumer(`hub-${APP}`), store, client)
