/**
 * command-api: HTTP in, PostgreSQL and the event log out.
 *
 *   request → pipeline → flush → ledger (PostgreSQL) → lanes (Kafka)
 *                              ↘ outbox → relay ↗
 *
 * Configuration: `HUB_PORT`, `HUB_BASE_URL`, `HUB_NUMBER_HASH_SECRET`, and what the parts say of theirs.
 */
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { catalogueConfig, kafkaConnectionConfig, layerEventLog, topicNames } from '@hub/kafka'
import { Sealing, Sql, Vault } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, teardown } from '@hub/telemetry'
import { AddressPolicy } from '@hub/webhooks'
import { Config, Effect, Layer, Redacted } from 'effect'
import { commandApi } from './app.ts'

const APP = 'command-api'

const eventLog = Layer.unwrap(
  Effect.gen(function* () {
    const connection = yield* kafkaConnectionConfig(APP)
    const { partitions } = yield* catalogueConfig
    return layerEventLog({ connection, partitions })
  }),
)

const app = Layer.unwrap(
  Effect.gen(function* () {
    const { prefix } = yield* catalogueConfig
    const { brokers } = yield* kafkaConnectionConfig(APP)
    return commandApi({
      brokers,
      port: yield* Config.Port('HUB_PORT'),
      baseUrl: yield* Config.String('HUB_BASE_URL'),
      topics: topicNames(prefix),
      hashSecret: Redacted.value(yield* Config.Redacted('HUB_NUMBER_HASH_SECRET')),
    })
  }),
)

app.pipe(
  Layer.provide(Sealing.layer),
  Layer.provide(Layer.mergeAll(Sql.layer(APP), Vault.layer, eventLog, AddressPolicy.layer)),
  Layer.provide(adminLayer),
  Layer.provide(Readiness.layer),
  Layer.provide(loggerLayer(APP)),
  Layer.launch,
  NodeRuntime.runMain({ teardown }),
)
