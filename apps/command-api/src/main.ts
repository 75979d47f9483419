/**
 * command-api: accepts commands over HTTP and answers queries. This file reads the environment and
 * starts the process; `app.ts` wires the components:
 *
 *   request → pipeline → acceptance batch → ledger (PostgreSQL) → lanes (Kafka)
 *                                         ↘ outbox → relay ↗
 *
 * Settings: docs/configuration.md, and `config.ts`.
 */
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { checkSettings } from '@hub/config'
import { countersLayer } from '@hub/counters'
import { layerEventLog, layerKeysAndErasures, topicNames } from '@hub/kafka'
import { makeHubProof, MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, withFailureLog, teardown, tracingLayer } from '@hub/telemetry'
import { AddressPolicy } from '@hub/webhooks'
import { Effect, Layer, Redacted } from 'effect'
import { AdmissionControl } from './accept/admission-control.ts'
import { commandApi } from './app.ts'
import { configuration, furtherChecks } from './config.ts'

const APP = 'command-api'

// Without Kafka it still accepts `service` messages.
const proof = makeHubProof(APP, { waitsForKafka: false })

const app = Layer.unwrap(
  Effect.map(
    configuration,
    ({
      baseUrl,
      catalogue,
      connection,
      hashSecret,
      host,
      lifetimes,
      loggedShare,
      port,
      secretTransition,
      shutdownDelay,
      tls,
      trustedProxies,
    }) =>
      commandApi({
        kafka: connection,
        port,
        host,
        baseUrl,
        topics: topicNames(catalogue.prefix),
        trustedProxies,
        lifetimes,
        tls,
        loggedShare,
        hashSecret: Redacted.value(hashSecret),
        shutdownDelay,
        secretTransition,
      }).pipe(
        Layer.provide(proof.layer),
        Layer.provide(AdmissionControl.layer()),
        Layer.provide(PayloadEncryption.layer),
        Layer.provide(layerKeysAndErasures(connection, topicNames(catalogue.prefix))),
        Layer.provide(
          Layer.mergeAll(
            Sql.layer(APP),
            countersLayer(APP),
            MasterKeyEncryption.layer,
            layerEventLog({ connection, partitions: catalogue.partitions }),
            AddressPolicy.layer,
          ),
        ),
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
