/** Wires the components of command-api into one layer, in the order of the data flow. */
import type { KeyPairFiles } from '@hub/config'
import { type Route, ROUTES } from '@hub/contract'
import type { Counters } from '@hub/counters'
import { gracefulShutdown, Serving } from '@hub/http-server'
import { type Lifetimes, SECRET_ROTATION_MS } from '@hub/domain'
import {
  type ErasureTopic,
  EventLog,
  type KafkaConnection,
  type PayloadKeyTopics,
  type TopicNames,
} from '@hub/kafka'
import { PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { AddressPolicy } from '@hub/webhooks'
import { Duration, Effect, Layer } from 'effect'
import { ACCEPTANCE_GATHER, acceptorLayer } from './accept/acceptor.ts'
import { ledgerLayer } from './accept/ledger/ledger.ts'
import { SendLimits } from './accept/batch/limits.ts'
import { commandOutboxLayer } from './accept/recovery/command-outbox.ts'
import { Lanes, reconcilerLayer } from './accept/recovery/reconciler.ts'
import { slices } from './accept/admission/slices.ts'
import { countersFromLedgerLayer } from './accept/recovery/counters-from-ledger.ts'
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
import { Idempotency } from './http/idempotency.ts'
import { idempotencyKeysLayer } from './idempotency/idempotency-keys.ts'
import type { AdmissionControl } from './accept/admission/admission-control.ts'
import { UnprovenCodes } from './accept/recovery/unproven-codes.ts'
import { freshId } from './ids/ids.ts'
import { maintenanceLayer } from './maintenance/maintenance.ts'
import { LedgerScan } from './messages/ledger-scan.ts'
import { Messages } from './messages/messages.ts'

interface AppOptions {
  /** 0 selects a free port. */
  readonly port: number
  /** The address of the listener; `null` for all addresses of the machine. */
  readonly host: string | null
  /** The public URL of the hub, such as `https://hub.example.com`. */
  readonly baseUrl: string
  readonly topics: TopicNames
  /** The secret of the recipient hash. */
  readonly hashSecret: string
  readonly lifetimes: Lifetimes
  /** For the end offsets of the lanes. */
  readonly kafka: KafkaConnection
  /** Proxies whose `X-Forwarded-For` is used. */
  readonly trustedProxies: Networks
  /** `null` for a listener without TLS. */
  readonly tls: KeyPairFiles | null
  /** The share of the 2xx responses that are logged. Default 1. */
  readonly loggedShare?: number
  /** Time between the announcement of a shutdown and the close of the listener. Default 0. */
  readonly shutdownDelay?: Duration.Duration
  /** A replaced webhook secret signs for this time. Default a day. */
  readonly secretTransition?: Duration.Duration
  /** Default: those of the contract. A test deprecates one of them. */
  readonly routes?: ReadonlyArray<Route>
}

/** Has payload keys before the first send, and while Kafka is unavailable. */
const payloadKeysLayer = Layer.effectDiscard(
  Effect.flatMap(PayloadEncryption, ({ keepReady }) => Effect.forkScoped(keepReady)),
)

/** Serves the API on `port` until the scope closes. */
export const commandApi = (options: AppOptions) => {
  const { baseUrl, hashSecret, kafka, lifetimes, host, port, tls, topics, trustedProxies } = options
  const loggedShare = options.loggedShare ?? 1
  const shutdownDelay = options.shutdownDelay ?? Duration.zero
  const secretTransition = options.secretTransition ?? Duration.millis(SECRET_ROTATION_MS)
  const { otp, service } = lifetimes.beforeSubmit
  const longestTtl = { otp: otp / 1000, service: service / 1000 }
  const routes = options.routes ?? ROUTES
  const accepting = acceptorLayer({
    topics,
    lifetimes,
    makeMessageId: (now) => freshId('msg', now),
    slices,
    gather: ACCEPTANCE_GATHER,
  }).pipe(Layer.provide(Layer.mergeAll(ledgerLayer, SendLimits.layer)))
  const reconciling = reconcilerLayer({ topics }).pipe(Layer.provide(Lanes.layer(kafka, topics)))
  // A layer listed earlier starts later and stops earlier. The listener stops before the readiness
  // checks, which report the shutdown, and before the acceptor, which completes its last batches.
  return gracefulShutdown(shutdownDelay).pipe(
    Layer.provideMerge(apiLayer({ hashSecret, topics, longestTtl, secretTransition, routes })),
    Layer.provideMerge(serverLayer({ host, port, tls, trustedProxies, shutdownDelay })),
    Layer.provide(Layer.mergeAll(accepting, maintenanceLayer, readinessLayer)),
    Layer.provide(Layer.mergeAll(batchSweeperLayer(topics), reconciling, payloadKeysLayer)),
    Layer.provide(countersFromLedgerLayer(hashSecret)),
    Layer.provide(Layer.mergeAll(Access.layer(trustedProxies), Idempotency.layer)),
    Layer.provide(ApiKeys.layer),
    Layer.provide(Layer.mergeAll(Accounts.layer, HubSettings.layer, idempotencyKeysLayer)),
    Layer.provide(
      Layer.mergeAll(
        Messages.layer,
        LedgerScan.layer,
        commandOutboxLayer,
        UnprovenCodes.layer,
        HttpEdge.layer({ baseUrl, loggedShare }),
        Serving.layer,
      ),
    ),
  ) satisfies Layer.Layer<
    never,
    unknown,
    | AdmissionControl
    | Sql
    | MasterKeyEncryption
    | PayloadEncryption
    | PayloadKeyTopics
    | ErasureTopic
    | Counters
    | EventLog
    | AddressPolicy
    | Readiness
  >
}
