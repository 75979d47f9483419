/** Watches the statistics of live messages, and sets the metrics of what is unusual in them. */
import { ReadInsights, Sql } from '@hub/store'
import { Cause, Clock, Duration, Effect, Schedule } from 'effect'
import { observeDelivery, observeRequests } from '../metrics.ts'

/** The statistics are by hour. Each process reads some thousand rows at these intervals. */
const INTERVAL = Duration.minutes(5)

/** Reading must not hold a connection that the projection needs for longer. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** Sets the metrics once. */
export const observeStatistics = Effect.gen(function* () {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const unusual = yield* sql.run(
    (q) => ReadInsights.readUnusualDelivery(q, { account: null, mode: 'live', class: null }, now),
    DEADLINE,
  )
  yield* observeDelivery(unusual)
  yield* observeRequests(yield* sql.run((q) => ReadInsights.readSuspiciousRequests(q, now), DEADLINE))
})

/** Sets the metrics until the scope closes. After a failure they keep their values until the next run. */
export const watchStatistics = observeStatistics.pipe(
  Effect.catchCause((cause) =>
    Cause.hasInterruptsOnly(cause)
      ? Effect.interrupt
      : Effect.logWarning('statistics: they were not read, the next run tries again', cause),
  ),
  Effect.repeat(Schedule.spaced(INTERVAL)),
  Effect.forkScoped,
)
