/** The readiness checks of command-api. */
import { acceptsSettings, Counters } from '@hub/counters'
import { addServingCheck } from '@hub/http-server'
import { CLOCK_TOLERANCE_MS, databaseClock, Sql, watchErasures } from '@hub/store'
import { onceReached, Readiness } from '@hub/telemetry'
import { Clock, Effect, Layer } from 'effect'
import { STATEMENT_DEADLINE } from '../deadlines.ts'

/**
 * Adds the checks of this app: the clocks agree, the listener serves requests, the database contains all
 * erasures, PostgreSQL was reachable once, and Redis does not refuse the settings. The proof of the process adds the
 * check of Kafka.
 *
 * Ready means that this process can answer. Without PostgreSQL it can: it refuses sends with 503 and
 * `retry_after`. If it were not ready then, no process would be, and a load balancer would answer in a
 * form that clients do not know. Source: docs/operating.md, "Ready and not ready".
 */
export const readinessLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const sql = yield* Sql

    const readDatabaseClock = sql.run(async (q) => {
      const [row] = await q<{ at: number }[]>`SELECT ${databaseClock(q)} AS at`
      return row?.at ?? 0
    }, STATEMENT_DEADLINE)
    yield* readiness.add('postgresql', onceReached(sql.answers))
    yield* readiness.add(
      'clock',
      Effect.gen(function* () {
        const before = yield* Clock.currentTimeMillis
        const databaseTime = yield* readDatabaseClock
        const after = yield* Clock.currentTimeMillis
        // PostgreSQL read its clock between the two moments.
        return databaseTime >= before - CLOCK_TOLERANCE_MS && databaseTime <= after + CLOCK_TOLERANCE_MS
      }).pipe(
        // Without an answer the clock is unknown.
        Effect.catch(() => Effect.succeed(true)),
      ),
    )
    // After the restore of a backup, it contains people who have been erased since.
    yield* readiness.add('erasures', yield* watchErasures)
    yield* readiness.add('redis', acceptsSettings(yield* Counters))
    yield* addServingCheck
    yield* readiness.started
  }),
)
