/**
 * The projector as one layer. Lanes and log → transaction batches → read models, event journal and
 * outbox → `hub.webhooks.v1`. It also executes rebuilds and retention.
 */
import { layerConsumerGroups, layerEventLog } from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, runRetention, Sql } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, tracingLayer } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { APP, configuration } from './config.ts'
import { makeProjector } from './projection/projector.ts'
import { runRebuilds } from './rebuild/runner.ts'

const projector = Layer.effectDiscard(
  Effect.gen(function* () {
    const {
      catalogue: { partitions, prefix },
      memberFile,
    } = yield* configuration
    const sql = yield* Sql
    const readiness = yield* Readiness
    yield* readiness.add(
      'database',
      sql
        .run((q) => q`SELECT 1`)
        .pipe(
          Effect.as(true),
          Effect.orElseSucceed(() => false),
        ),
    )
    const { isHealthy } = yield* makeProjector({ prefix, partitions, memberFile })
    yield* readiness.add('group', isHealthy)
    yield* runRetention
    yield* runRebuilds({ prefix, partitions })
    yield* readiness.started
    yield* Effect.logInfo('projector: started')
  }),
)

const kafka = Layer.unwrap(
  Effect.map(configuration, ({ catalogue: { partitions }, connection }) =>
    Layer.mergeAll(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection })),
  ),
)
const store = PayloadEncryption.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(Sql.layer(`hub-${APP}`), MasterKeyEncryption.layer)),
)

export const app = projector.pipe(
  Layer.provideMerge(adminLayer),
  Layer.provide(Layer.mergeAll(kafka, store, Readiness.layer)),
  Layer.provide(tracingLayer(APP)),
  Layer.provide(loggerLayer(APP)),
)
