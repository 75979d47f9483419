/**
 * command-api: accepts commands over HTTP and answers queries. `app.ts` wires the components:
 *
 *   request → pipeline → acceptance batch → ledger (PostgreSQL) → lanes (Kafka)
 *                                         ↘ outbox → relay ↗
 *
 * Settings: docs/configuration.md, and `config.ts`.
 */
import { topicNames } from '@hub/kafka'
import { runApp } from '@hub/process'
import { Effect, Layer, Redacted } from 'effect'
import { commandApi } from './app.ts'
import { APP, checks, configuration } from './config.ts'
import { layers } from './layers.ts'

const app = Layer.unwrap(
  Effect.map(configuration, ({ catalogue, connection, hashSecret, ...options }) =>
    commandApi({
      ...options,
      kafka: connection,
      topics: topicNames(catalogue.prefix),
      hashSecret: Redacted.value(hashSecret),
    }),
  ),
)

// Without Kafka it still accepts `service` messages. Before it has reached Kafka, its settings may be wrong.
runApp({ name: APP, checks, beforeKafka: 'is not ready', layers, app })
