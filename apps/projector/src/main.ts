/**
 * Lanes and log → one transaction a poll → read models, event journal, outbox → `hub.webhooks.v1`. Beside it runs what removes things after
 * their time (docs/decisions/0018).
 */
// By its own path: the whole package takes 25 MB more.
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { checkSettings, settings } from '@hub/config'
import {
  catalogueConfig,
  kafkaCaConfig,
  kafkaConnectionConfig,
  layerConsumerGroups,
  layerEventLog,
} from '@hub/kafka'
import { runRetention, PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, withFailureLog, teardown, tracingLayer } from '@hub/telemetry'
import { Config, Effect, Layer } from 'effect'
import { join } from 'node:path'
import { makeProjector } from './projection/projector.ts'
import { runRebuilds } from './rebuild/runner.ts'
import { ping } from './tables/all.ts'

const APP = 'projector'

const projector = Layer.effectDiscard(
  Effect.gen(function* () {
    const { partitions, prefix } = yield* catalogueConfig
    const dataDir = (yield* settings.dataDir.config) ?? `.local/${APP}`
    const sql = yield* Sql
    const readiness = yield* Readiness
    yield* readiness.add(
      'database',
      sql.run(ping).pipe(
        Effect.as(true),
        Effect.orElseSucceed(() => false),
      ),
    )
    const { isHealthy } = yield* makeProjector({
      prefix,
      partitions,
      memberFile: join(dataDir, `${APP}.member`),
    })
    yield* readiness.add('group', isHealthy)
    yield* runRetention
    yield* runRebuilds({ prefix, partitions })
    yield* readiness.started
    yield* Effect.logInfo('the projector runs')
  }),
)

const bus = Layer.unwrap(
  Effect.map(
    Config.all([kafkaConnectionConfig(`hub-${APP}`), catalogueConfig]),
    ([connection, { partitions }]) =>
      Layer.mergeAll(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection })),
  ),
)
const store = PayloadEncryption.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(Sql.layer(`hub-${APP}`), MasterKeyEncryption.layer)),
)

const app = projector.pipe(
  Layer.provideMerge(adminLayer),
  Layer.provide(Layer.mergeAll(bus, store, Readiness.layer)),
  Layer.provide(tracingLayer(APP)),
  Layer.provide(loggerLayer(APP)),
)

checkSettings(APP, [kafkaCaConfig]).pipe(
  Effect.andThen(Layer.launch(app)),
  withFailureLog(APP),
  NodeRuntime.runMain({ teardown, disableErrorReporting: true }),
)
