/**
 * The projector as one layer. Lanes and log → transaction batches → read models, event journal and
 * outbox → `hub.webhooks.v1`. It also executes rebuilds and retention.
 */
import { layerConsumerGroups, layerEventLog, layerKeysAndErasures, topicNames } from '@hub/kafka'
import {
  keepErasuresPublished,
  makeHubProof,
  MasterKeyEncryption,
  PayloadEncryption,
  runRetention,
  Sql,
  watchErasures,
} from '@hub/store'
import { adminLayer, loggerLayer, Readiness, tracingLayer } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { APP, configuration } from './config.ts'
import { runOutcomes } from './outcomes/publish-outcomes.ts'
import { makeProjector } from './projection/projector.ts'
import { runRebuilds } from './rebuild/runner.ts'
import { layerPostgresStore } from './store/postgres-store.ts'

const projector = Layer.effectDiscard(
  Effect.gen(function* () {
    const {
      catalogue: { partitions, prefix },
      memberFile,
      outcomes,
    } = yield* configuration
    const sql = yield* Sql
    const readiness = yield* Readiness
    yield* readiness.add('database', sql.answers)
    const { isHealthy } = yield* makeProjector({ prefix, partitions, memberFile, outcomes })
    yield* readiness.add('group', isHealthy)
    yield* readiness.add('erasures', yield* watchErasures)
    yield* Effect.forkScoped(keepErasuresPublished)
    yield* runRetention
    yield* runRebuilds({ prefix, partitions, outcomes })
    yield* runOutcomes(topicNames(prefix), outcomes)
    yield* readiness.started
    yield* Effect.logInfo('projector: started')
  }),
)

const kafka = Layer.unwrap(
  Effect.map(configuration, ({ catalogue: { partitions, prefix }, connection }) =>
    Layer.merge(
      layerKeysAndErasures(connection, topicNames(prefix)),
      layerConsumerGroups({ connection }),
    ).pipe(Layer.provideMerge(layerEventLog({ connection, partitions }))),
  ),
)
const store = Layer.merge(PayloadEncryption.layer, layerPostgresStore).pipe(
  Layer.provideMerge(Layer.mergeAll(Sql.layer(`hub-${APP}`), MasterKeyEncryption.layer, kafka)),
)

export const proof = makeHubProof(APP, { waitsForKafka: true })

export const app = projector.pipe(
  Layer.provide(proof.layer),
  Layer.provideMerge(adminLayer),
  Layer.provide(Layer.mergeAll(store, Readiness.layer)),
  Layer.provide(tracingLayer(APP)),
  Layer.provide(loggerLayer(APP)),
)
