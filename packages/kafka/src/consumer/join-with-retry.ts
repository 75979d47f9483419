/** Joins a consumer group when an app starts, and retries until Kafka is available. */
import { backoffSchedule, PATIENT } from '@hub/flow'
import { Effect, type Scope } from 'effect'
import { ConsumerGroups, type GroupHandler, type GroupOptions } from '../port.ts'

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
    Effect.retry(backoffSchedule(PATIENT)),
    // The schedule has no end, so the effect cannot fail.
    Effect.orDie,
  )
