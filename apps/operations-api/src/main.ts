/**
 * operations-api: the operations of hub staff over HTTP, and the console. It has its own listener, which
 * clients of the hub must not reach. `app.ts` wires the components:
 *
 *   request → session or bearer token → endpoint → use case (@hub/operations) → audit trail, stores
 *
 * Settings: docs/configuration.md, and `config.ts`.
 */
import { runApp } from '@hub/process'
import { Effect, Layer } from 'effect'
import { operationsApi } from './app.ts'
import { APP, checks, configuration } from './config.ts'
import { layers } from './layers.ts'

const app = Layer.unwrap(
  Effect.map(configuration, ({ catalogue, connection, ...options }) =>
    operationsApi({ ...options, kafka: connection, topicPrefix: catalogue.prefix }),
  ),
)

// Without Kafka it still shows what PostgreSQL has.
runApp({ name: APP, checks, beforeKafka: 'is ready', layers, app })
