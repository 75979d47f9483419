/** The readiness checks of command-api. */
import { CLOCK_TOLERANCE_MS, databaseClock, Sql, watchErasures } from '@hub/store'
import { acceptsConnection, Readiness } from '@hub/telemetry'
import { Clock, Duration, Effect, Layer } from 'effect'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { HttpEdge } from '../http/edge.ts'

/** A reachable broker accepts a connection within a millisecond. */
const CONNECT_WITHIN = Duration.millis(400)

/**
 * Adds the checks of this app: PostgreSQL answers, the clocks agree, the listener serves requests,
 * the database contains all erasures, and a Kafka broker was reachable once.
 *
 * Kafka is checked until it was reachable once: a process that has never reached it is probably
 * misconfigured. Later, reads and `service` sends must go on while Kafka is unavailable.
 */
export const readinessLayer = (brokers: ReadonlyArray<string>) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const readiness = yield* Readiness
      const sql = yield* Sql
      const edge = yield* HttpEdge

      const readDatabaseClock = sql.run(async (q) => {
        const [row] = await q<{ at: number }[]>`SELECT ${databaseClock(q)} AS at`
        return row?.at ?? 0
      }, STATEMENT_DEADLINE)
      yield* readiness.add('postgresql', sql.answers)
      yield* readiness.add(
        'clock',
        Effect.gen(function* () {
          const before = yield* Clock.currentTimeMillis
          const databaseTime = yield* readDatabaseClock
          const after = yield* Clock.currentTimeMillis
          // PostgreSQL read its clock between the two moments.
          return databaseTime >= before - CLOCK_TOLERANCE_MS && databaseTime <= after + CLOCK_TOLERANCE_MS
        }).pipe(
          // Without an answer the clock is unknown. The check of PostgreSQL judges that.
          Effect.catch(() => Effect.succeed(true)),
        ),
      )
      // After the restore of a backup, it contains people who have been erased since.
      yield* readiness.add('erasures', yield* watchErasures)
      let kafkaSeen = false
      yield* readiness.add(
        'kafka',
        Effect.suspend(() =>
          kafkaSeen
            ? Effect.succeed(true)
            : Effect.map(
                Effect.forEach(brokers, (broker) => acceptsConnection(broker, CONNECT_WITHIN), {
                  concurrency: 'unbounded',
                }),
                (answers) => (kafkaSeen = answers.includes(true)),
              ),
        ),
      )
      yield* readiness.add(
        'serving',
        Effect.sync(() => edge.state() === 'serving'),
      )
      yield* readiness.started
    }),
  )
