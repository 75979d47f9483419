/**
 * dispatcher: messages out of the lanes, to their operators, and what becomes of them into the log.
 *
 *   lanes → shard (recipient actors) → claim in the log → operator
 *              ↑        ↘ facts → log
 *              └── reports ← hub.operator-reports.v1 ← deliveries, callbacks
 *
 * Settings: docs/configuration.md, `config.ts` and `live-operator.ts`.
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
  topicNames,
} from '@hub/kafka'
import { PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, withFailureLog, teardown, tracingLayer } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { vocabulary } from './config.ts'
import { makeDispatcher } from './dispatcher.ts'
import { APP, membership } from './identity.ts'
import { optOutsPostgres } from './inbound/postgres.ts'
import { knownMessagesPostgres } from './known/postgres.ts'
import { authorities, liveOperator, smppErrors } from './live-operator.ts'

const bus = Layer.unwrap(
  Effect.gen(function* () {
    const connection = yield* kafkaConnectionConfig(APP)
    const { partitions } = yield* catalogueConfig
    return Layer.merge(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection }))
  }),
)

const dispatcher = Effect.gen(function* () {
  const { prefix } = yield* catalogueConfig
  const readiness = yield* Readiness
  const running = yield* makeDispatcher({
    prefix,
    topics: topicNames(prefix),
    memberFile: (yield* membership).memberFile,
    live: yield* liveOperator,
    hashSecret: yield* settings.numberHashSecret.config,
    vocabulary: yield* vocabulary,
  })
  yield* readiness.add('shards', running.isReady)
  yield* readiness.started
  return yield* running.failure
}).pipe(Effect.scoped)

const running = dispatcher.pipe(
  Effect.provide(
    Layer.mergeAll(knownMessagesPostgres, optOutsPostgres, PayloadEncryption.layer).pipe(
      Layer.provide(Layer.mergeAll(Sql.layer(APP), MasterKeyEncryption.layer)),
      Layer.provideMerge(bus),
      Layer.provideMerge(adminLayer),
      Layer.provideMerge(Readiness.layer),
      Layer.provideMerge(tracingLayer(APP)),
      Layer.provideMerge(loggerLayer(APP)),
    ),
  ),
)

/** Runs until a signal comes or a part of it dies, which ends the process. */
export const run = (): void =>
  checkSettings(APP, [vocabulary, smppErrors, authorities, kafkaCaConfig]).pipe(
    Effect.andThen(running),
    withFailureLog(APP),
    NodeRuntime.runMain({ teardown, disableErrorReporting: true }),
  )
