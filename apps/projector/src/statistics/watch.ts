/** Watches the statistics of live messages, and sets the metrics of what is unusual in them. */
import { type Queries, ReadInsights, Sql } from '@hub/store'
import { Cause, Clock, Duration, Effect, Schedule } from 'effect'
import { observeDelivery, observeRequests } from '../metrics.ts'

/** The statistics are by hour. Each process reads some thousand rows at these intervals. */
const INTERVAL = Duration.minutes(5)

/** Reading must not hold a connection that the projection needs for longer. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** Sets a metric from what is read. After a failure nothing is known to be unusual, and the next run tries again. */
const watch = <Found>(
  read: (q: Queries, now: number) => Promise<ReadonlyArray<Found>>,
  observe: (found: ReadonlyArray<Found>) => Effect.Effect<void>,
): Effect.Effect<void, never, Sql> =>
  Effect.gen(function* () {
    const sql = yield* Sql
    const now = yield* Clock.currentTimeMillis
    yield* observe(yield* sql.run((q) => read(q, now), DEADLINE))
  }).pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.andThen(observe([]), Effect.logWarning('statistics: they were not read', cause)),
    ),
  )

/** Sets the metrics once. */
export const observeStatistics: Effect.Effect<void, never, Sql> = Effect.andThen(
  watch(
    (q, now) => ReadInsights.readUnusualDelivery(q, { account: null, mode: 'live', class: null }, now),
    observeDelivery,
  ),
  watch(ReadInsights.readSuspiciousRequests, observeRequests),
)

/** Sets the metrics until the scope closes. */
export const watchStatistics = observeStatistics.pipe(
  Effect.repeat(Schedule.spaced(INTERVAL)),
  Effect.forkScoped,
)
