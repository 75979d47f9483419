/** Retries of what PostgreSQL did not do. Nothing is lost meanwhile: the caller keeps its input in memory. */
import type { StorageError } from '@hub/store'
import { Effect, Schedule } from 'effect'

/** From 200 ms, doubling, to 5 s: short enough to go on soon after a restart of PostgreSQL. */
const RETRY_PAUSE = Schedule.jittered(
  Schedule.min([Schedule.exponential('200 millis'), Schedule.spaced('5 seconds')]),
)

const isStorageError = (error: unknown): boolean =>
  typeof error === 'object' &&
  error !== null &&
  '_tag' in error &&
  (error._tag === 'StorageUnavailable' || error._tag === 'StorageRejected')

/** Retries an effect without end while it fails with a `StorageError`; logs `message` at each failure. */
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
