/** Starts the webhook fan-out: reads the environment, builds the layers and runs the app. */
// Imported by their own paths, because the whole package takes 25 MB more.
import * as NodeFileSystem from '@effect/platform-node/NodeFileSystem'
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { checkSettings, settings } from '@hub/config'
import {
  catalogueConfig,
  kafkaCaConfig,
  kafkaConnectionConfig,
  layerConsumerGroups,
  layerEventLog,
  layerKeysAndErasures,
  topicNames,
} from '@hub/kafka'
import { makeHubProof, MasterKeyEncryption, Sql, watchErasures } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, withFailureLog, teardown, tracingLayer } from '@hub/telemetry'
import {
  AddressPolicy,
  allowedHostsConfig,
  deniedNetworksConfig,
  egressProxyConfig,
  WebhookClient,
} from '@hub/webhooks'
import { Config, Effect, Layer } from 'effect'
import { join } from 'node:path'
import { makeFanout } from './app.ts'
import { layerPostgresStore } from './store/postgres-store.ts'
import { FanoutStore } from './store/store.port.ts'

const APP = 'webhook-fanout'

const proof = makeHubProof(APP, { waitsForKafka: true })

/**
 * Connections to PostgreSQL: two read due batches, the others store and record. Each server process
 * behind a connection has its own plans and caches, and statements rotate over all of them, so few
 * connections are faster (docs/decisions/0022).
 */
const CONNECTIONS = 4

const fanout = Layer.effectDiscard(
  Effect.gen(function* () {
    const { prefix } = yield* catalogueConfig
    const dataDir = (yield* settings.dataDir.config) ?? `.local/${APP}`
    const store = yield* FanoutStore
    const readiness = yield* Readiness
    yield* readiness.add('database', store.answers)
    const { failure, isHealthy, isOpen } = yield* makeFanout({
      prefix,
      memberFile: join(dataDir, 'member-id'),
    })
    yield* readiness.add('group', isHealthy)
    yield* readiness.add('partitions', isOpen)
    yield* readiness.add('erasures', yield* watchErasures)
    yield* readiness.started
    yield* Effect.logInfo('webhook-fanout: started')
    return yield* failure
  }),
)

const kafka = Layer.unwrap(
  Effect.map(
    Config.all([kafkaConnectionConfig(`hub-${APP}`), catalogueConfig]),
    ([connection, { partitions, prefix }]) =>
      Layer.merge(
        layerKeysAndErasures(connection, topicNames(prefix)),
        layerConsumerGroups({ connection }),
      ).pipe(Layer.provideMerge(layerEventLog({ connection, partitions }))),
  ),
)
const store = layerPostgresStore.pipe(
  Layer.provideMerge(
    Layer.mergeAll(Sql.layer(`hub-${APP}`, { maxConnections: CONNECTIONS }), MasterKeyEncryption.layer),
  ),
)
const client = WebhookClient.layer.pipe(
  Layer.provide(Layer.mergeAll(AddressPolicy.layer, NodeFileSystem.layer)),
)

const app = fanout.pipe(
  Layer.provide(proof.layer),
  Layer.provideMerge(adminLayer),
  Layer.provide(Layer.mergeAll(kafka, store, client, Readiness.layer)),
  Layer.provide(tracingLayer(APP)),
  Layer.provide(loggerLayer(APP)),
)

checkSettings(APP, [allowedHostsConfig, deniedNetworksConfig, egressProxyConfig, kafkaCaConfig]).pipe(
  Effect.andThen(Effect.raceFirst(Layer.launch(app), proof.lost)),
  withFailureLog(APP),
  NodeRuntime.runMain({ teardown, disableErrorReporting: true }),
)
