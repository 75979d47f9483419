/** Joins a consumer group when an app starts, and retries until Kafka is available. */
import { Duration, Effect, Schedule, type Scope } from 'effect'
import { ConsumerGroups, type GroupHandler, type GroupOptions } from '../port.ts'

/** The delay doubles from the first to the longest. A broker may need minutes to start. */
const FIRST_DELAY = Duration.millis(200)
const LONGEST_DELAY = Duration.seconds(5)

/** As `ConsumerGroups.join`, but logs failures and retries. The app is not ready meanwhile. */
export const joinWithRetry = (
  options: GroupOptions,
  handler: GroupHandler,
): Effect.Effect<{ readonly isHealthy: Effect.Effect<boolean> }, never, ConsumerGroups | Scope.Scope> =>
  Effect.flatMap(ConsumerGroups, (groups) => groups.join(options, handler)).pipe(
    Effect.tapError(({ detail, reason }) =>
      Effect.logWarning('consumer: the group cannot be joined yet; the next attempt follows').pipe(
        Effect.annotateLogs({ group: options.group, reason, detail }),
      ),
    ),
    Effect.retry(
      Schedule.exponential(FIRST_DELAY).pipe(
        Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, LONGEST_DELAY))),
      ),
    ),
    // The schedule has no end, so the effect cannot fail.
    Effect.orDie,
  )
