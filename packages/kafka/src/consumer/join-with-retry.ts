import { Duration, Effect, Schedule, type Scope } from 'effect'
import { ConsumerGroups, type GroupHandler, type GroupOptions } from '../port.ts'

/** Pause between attempts, doubled from the first to the longest: Kafka may take its time, and a hub should not need help when it is there. */
const FIRST_PAUSE = Duration.millis(200)
const LONGEST_PAUSE = Duration.seconds(5)

/**
 * Joins a group as `ConsumerGroups.join` does, and where Kafka is not there yet, or not ready for groups, tries again until it is. An
 * app that starts before its broker waits, not ready and saying why.
 */
export const joinWithRetry = (
  options: GroupOptions,
  handler: GroupHandler,
): Effect.Effect<{ readonly isHealthy: Effect.Effect<boolean> }, never, ConsumerGroups | Scope.Scope> =>
  Effect.flatMap(ConsumerGroups, (groups) => groups.join(options, handler)).pipe(
    Effect.tapError(({ detail, reason }) =>
      Effect.logWarning('the consumer group cannot be joined yet; trying again').pipe(
        Effect.annotateLogs({ group: options.group, reason, detail }),
      ),
    ),
    Effect.retry(
      Schedule.exponential(FIRST_PAUSE).pipe(
        Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, LONGEST_PAUSE))),
      ),
    ),
    // The schedule never ends, so this is never reached.
    Effect.orDie,
  )
