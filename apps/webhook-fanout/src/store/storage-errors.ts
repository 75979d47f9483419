/** How the fan-out handles errors of PostgreSQL. */
import { type StorageError, StorageRejected, StorageUnavailable } from '@hub/store'
import { Effect, Schedule } from 'effect'

/** From 200 ms, doubling, to 5 s: the fan-out continues soon after a restart of PostgreSQL. */
const RETRY_PAUSE = Schedule.jittered(
  Schedule.min([Schedule.exponential('200 millis'), Schedule.spaced('5 seconds')]),
)

const isStorageError = (error: unknown): error is StorageError =>
  error instanceof StorageUnavailable || error instanceof StorageRejected

/** PostgreSQL rejected a row because its subscription was deleted (foreign key violation). */
export const isDeletedSubscription = (error: StorageError): boolean =>
  error instanceof StorageRejected && error.code === '23503'

/**
 * Repeats an effect while it fails with a `StorageError`, without end, and logs each failure.
 * Nothing is lost meanwhile: the caller keeps its input in memory.
 */
export const retryStorage =
  (message: string, partition: number) =>
  <A, E, R>(effect: Effect.Effect<A, E | StorageError, R>): Effect.Effect<A, Exclude<E, StorageError>, R> =>
    effect.pipe(
      Effect.tapError((error) =>
        isStorageError(error)
          ? Effect.logWarning(message, error).pipe(Effect.annotateLogs({ partition }))
          : Effect.void,
      ),
      Effect.retry({ while: isStorageError, schedule: RETRY_PAUSE }),
    ) as Effect.Effect<A, Exclude<E, StorageError>, R>
