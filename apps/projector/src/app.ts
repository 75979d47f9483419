/**
 * The projector. Lanes and log → transaction batches → read models, event journal and
 * outbox → `hub.webhooks.v1`. It also executes rebuilds and retention, and watches the statistics.
 */
import { topicNames } from '@hub/kafka'
import { keepErasuresPublished, runRetention, Sql, watchErasures } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { configuration } from './config.ts'
import { runOutcomes } from './outcomes/publish-outcomes.ts'
import { makeProjector } from './projection/projector.ts'
import { runRebuilds } from './rebuild/runner.ts'
import { watchStatistics } from './statistics/watch.ts'

export const projector = Layer.effectDiscard(
  Effect.gen(function* () {
    const {
      catalogue: { partitions, prefix },
      memberFile,
      outcomes,
    } = yield* configuration
    const sql = yield* Sql
    const readiness = yield* Readiness
    yield* readiness.add('postgresql', sql.answers)
    const { isHealthy } = yield* makeProjector({ prefix, partitions, memberFile, outcomes })
    yield* readiness.add('group', isHealthy)
    yield* readiness.add('erasures', yield* watchErasures)
    yield* Effect.forkScoped(keepErasuresPublished)
    yield* runRetention
    yield* runRebuilds({ prefix, partitions, outcomes })
    yield* runOutcomes(topicNames(prefix), outcomes)
    yield* watchStatistics
    yield* readiness.started
    yield* Effect.logInfo('projector: started')
  }),
)
