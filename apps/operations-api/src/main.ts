/**
 * operations-api: the operations of hub staff over HTTP, and the console. It has its own listener, which
 * clients of the hub must not reach. This file reads the environment and starts the process; `app.ts`
 * wires the components:
 *
 *   request → session or bearer token → endpoint → use case (@hub/operations) → audit trail, stores
 *
 * Settings: docs/configuration.md, and `config.ts`.
 */
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { checkSettings } from '@hub/config'
import { makeHubProof } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, withFailureLog, teardown, tracingLayer } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { IdentityProvider } from './access/identity-provider.ts'
import { operationsApi } from './app.ts'
import { configuration, furtherChecks } from './config.ts'
import { storesLayer } from './services.ts'

const APP = 'operations-api'

// Without Kafka it still shows what PostgreSQL has.
const proof = makeHubProof(APP, { waitsForKafka: false })

const app = Layer.unwrap(
  Effect.map(configuration, ({ catalogue, connection, ...options }) =>
    operationsApi({ ...options, kafka: connection, topicPrefix: catalogue.prefix }).pipe(
      Layer.provide(proof.layer),
      Layer.provide(Layer.mergeAll(storesLayer(APP, { connection, ...catalogue }), IdentityProvider.layer)),
      Layer.provide(adminLayer),
      Layer.provide(Readiness.layer),
      Layer.provide(tracingLayer(APP)),
      Layer.provide(loggerLayer(APP)),
    ),
  ),
)

checkSettings(APP, furtherChecks).pipe(
  Effect.andThen(Effect.raceFirst(Layer.launch(app), proof.lost)),
  withFailureLog(APP),
  NodeRuntime.runMain({ teardown, disableErrorReporting: true }),
)
