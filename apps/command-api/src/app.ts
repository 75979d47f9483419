/** Wires the components of command-api into one layer, in the order of the data flow. */
import type { Counters } from '@hub/counters'
import { DEFAULT_LIFETIMES } from '@hub/domain'
import { EventLog, type KafkaConnection, type TopicNames } from '@hub/kafka'
import { PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { AddressPolicy } from '@hub/webhooks'
import { Duration, Layer } from 'effect'
import { acceptorLayer } from './accept/acceptor.ts'
import { ledgerLayer } from './accept/ledger.ts'
import { Limits } from './accept/limits.ts'
import { OutboxMode } from './accept/outbox-mode.ts'
import { Lanes, reconcilerLayer } from './accept/reconciler.ts'
import { relayLayer } from './accept/relay.ts'
import { countersFromLedgerLayer } from './accept/counters-from-ledger.ts'
import { Access } from './access/access.ts'
import type { Networks } from './access/client-address.ts'
import { ApiKeys } from './access/api-keys.ts'
import { Accounts } from './accounts/accounts.ts'
import { HubSettings } from './accounts/hub-settings.ts'
import { batchSweeperLayer } from './batches/sweeper.ts'
import { readinessLayer } from './health/readiness.ts'
import { HttpEdge } from './http/edge.ts'
import { apiLayer } from './http/router.ts'
import { serverLayer } from './http/server.ts'
import { gracefulShutdown } from './http/graceful-shutdown.ts'
import type { TlsFiles } from './http/tls.ts'
import { Idempotency } from './idempotency/idempotency.ts'
import { idempotencyKeysLayer } from './idempotency/idempotency-keys.ts'
import { freshId } from './ids/ids.ts'
import { maintenanceLayer } from './maintenance/maintenance.ts'
import { Messages } from './messages/messages.ts'

interface AppOptions {
  /** 0 selects a free port. */
  readonly port: number
  /** The public URL of the hub, such as `https://hub.example.com`. */
  readonly baseUrl: string
  readonly topics: TopicNames
  /** The secret of the recipient hash. */
  readonly hashSecret: string
  /** For readiness, and for the end offsets of the lanes. */
  readonly kafka: KafkaConnection
  /** Proxies whose `X-Forwarded-For` is used. */
  readonly trustedProxies: Networks
  /** `null` for a listener without TLS. */
  readonly tls: TlsFiles | null
  /** Time between the announcement of a shutdown and the close of the listener. Default 0. */
  readonly shutdownDelay?: Duration.Duration
}

/** Serves the API on `port` until the scope closes. */
export const commandApi = (options: AppOptions) => {
  const { baseUrl, hashSecret, kafka, port, tls, topics, trustedProxies } = options
  const shutdownDelay = options.shutdownDelay ?? Duration.zero
  const accepting = acceptorLayer({
    topics,
    lifetimes: DEFAULT_LIFETIMES,
    makeMessageId: (now) => freshId('msg', now),
  }).pipe(Layer.provide(Layer.mergeAll(ledgerLayer, Limits.layer)))
  const reconciling = reconcilerLayer({ topics }).pipe(Layer.provide(Lanes.layer(kafka, topics)))
  // A layer listed earlier starts later and stops earlier. The listener stops before the readiness
  // checks, which report the shutdown, and before the acceptor, which completes its last batches.
  return gracefulShutdown(shutdownDelay).pipe(
    Layer.provideMerge(apiLayer({ hashSecret, topics })),
    Layer.provideMerge(serverLayer(port, tls, shutdownDelay)),
    Layer.provide(Layer.mergeAll(accepting, relayLayer, maintenanceLayer, readinessLayer(kafka.brokers))),
    Layer.provide(Layer.mergeAll(batchSweeperLayer(topics), reconciling)),
    Layer.provide(countersFromLedgerLayer(hashSecret)),
    Layer.provide(Layer.mergeAll(Access.layer(trustedProxies), Idempotency.layer)),
    Layer.provide(Layer.mergeAll(ApiKeys.layer, Accounts.layer, HubSettings.layer, idempotencyKeysLayer)),
    Layer.provide(Layer.mergeAll(Messages.layer, OutboxMode.layer, HttpEdge.layer(baseUrl))),
  ) satisfies Layer.Layer<
    never,
    unknown,
    Sql | MasterKeyEncryption | PayloadEncryption | Counters | EventLog | AddressPolicy | Readiness
  >
}
