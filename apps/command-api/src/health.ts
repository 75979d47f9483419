/** When the process can do its work. */
import { Sql } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { Clock, Duration, Effect, Layer } from 'effect'
import { HttpEdge } from './http/edge.ts'

/**
 * Stamps come from PostgreSQL and lifetimes are judged by this machine's clock as well: a second apart is as much as may go
 * unnoticed. Architecture, Accepting.
 */
const CLOCK_TOLERANCE_MS = 1000

/** Adds the checks of this app: PostgreSQL answers, the clocks agree, and the process is not about to end. */
export const readinessLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const sql = yield* Sql
    const edge = yield* HttpEdge

    const databaseClock = sql.run(
      async (q) => {
        const [row] = await q<{ at: number }[]>`
          SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`
        return row?.at ?? 0
      },
      { deadline: Duration.millis(800) },
    )
    yield* readiness.add(
      'postgresql',
      databaseClock.pipe(
        Effect.as(true),
        Effect.catch(() => Effect.succeed(false)),
      ),
    )
    yield* readiness.add(
      'clock',
      Effect.gen(function* () {
        const before = yield* Clock.currentTimeMillis
        const there = yield* databaseClock
        const after = yield* Clock.currentTimeMillis
        // The answer was given somewhere between the two.
        return there >= before - CLOCK_TOLERANCE_MS && there <= after + CLOCK_TOLERANCE_MS
      }).pipe(Effect.catch(() => Effect.succeed(false))),
    )
    yield* readiness.add(
      'not_draining',
      Effect.sync(() => !edge.draining()),
    )
  }),
)
