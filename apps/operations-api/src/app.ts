/** Wires the components of operations-api into one layer, in the order of the data flow. */
import { addServingCheck, gracefulShutdown, Serving } from '@hub/http-server'
import type { KafkaConnection } from '@hub/kafka'
import { Overview } from '@hub/operations'
import { Sql } from '@hub/store'
import { memoizeLabels, onceReached, Readiness } from '@hub/telemetry'
import { Context, Duration, Effect, Layer } from 'effect'
import { IdentityProvider } from './access/identity-provider.ts'
import { Sessions } from './access/sessions.ts'
import { type RouterOptions, routerLayer } from './http/router.ts'
import { serverLayer } from './http/server.ts'
import type { Stores } from './layers.ts'
import { overviewQuerySeconds, overviewViewers } from './metrics.ts'

export interface AppOptions extends RouterOptions {
  /** 0 selects a free port. */
  readonly port: number
  /** The address of the listener; `null` for all addresses of the machine. */
  readonly host: string | null
  readonly kafka: KafkaConnection
  /** The prefix of topics and consumer groups. */
  readonly topicPrefix: string
  /** Time between the announcement of a shutdown and the close of the listener. Default 0. */
  readonly shutdownDelay?: Duration.Duration
}

const labelled = memoizeLabels()

const readinessLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const sql = yield* Sql
    // Without PostgreSQL, this process still answers: 503 `unavailable` with `retry_after`.
    yield* readiness.add('postgresql', onceReached(sql.answers))
    yield* addServingCheck
    yield* readiness.started
  }),
)

/** Serves the operations API and the console until the scope closes. */
export const operationsApi = (options: AppOptions) => {
  const { host, kafka, port, shutdownDelay = Duration.zero, topicPrefix } = options
  // A layer listed earlier starts later and stops earlier.
  return gracefulShutdown(shutdownDelay).pipe(
    Layer.provideMerge(routerLayer(options)),
    Layer.provideMerge(serverLayer({ host, port, shutdownDelay })),
    Layer.provide(readinessLayer),
    Layer.provide(
      Overview.OverviewFeed.layer({
        kafka,
        topicPrefix,
        onRead: (part, seconds) =>
          labelled(overviewQuerySeconds, { part }).updateUnsafe(seconds, Context.empty()),
        onViewers: (viewers) => overviewViewers.updateUnsafe(viewers, Context.empty()),
      }),
    ),
    Layer.provide(Sessions.layer),
    Layer.provide(Serving.layer),
  ) satisfies Layer.Layer<never, unknown, Stores | Readiness | IdentityProvider>
}
