/** How the fan-out handles errors of PostgreSQL. */
import { backoffSchedule, PATIENT } from '@hub/flow'
import { type StorageError, StorageRejected, StorageUnavailable } from '@hub/store'
import { Effect } from 'effect'

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
      Effect.retry({ while: isStorageError, schedule: backoffSchedule(PATIENT) }),
    ) as Effect.Effect<A, Exclude<E, StorageError>, R>
