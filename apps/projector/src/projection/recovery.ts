/** What to do when a step fails, as a value. */
import { Duration, Schedule } from 'effect'

/**
 * What a failed attempt leads to. `retry`: PostgreSQL or Kafka is unavailable, so the same is tried
 * again until it is back. `bisect`: the data is refused, so the batch is halved until the record is
 * found that cannot be applied. `deadLetter`: that record, alone.
 */
export type Recovery = 'retry' | 'bisect' | 'deadLetter'

/** The recovery of a failed transaction. */
export const recoveryOf = (
  error: { readonly _tag: 'StorageUnavailable' | 'StorageRejected' },
  records: number,
): Recovery => (error._tag === 'StorageUnavailable' ? 'retry' : records > 1 ? 'bisect' : 'deadLetter')

/**
 * Pauses between attempts. The first is a tenth of a second, so that a failover is hardly noticed.
 * They grow to two seconds, so that a recovery is noticed within the time in which clients are
 * promised their events.
 */
export const backoff = Schedule.jittered(
  Schedule.min([Schedule.exponential('100 millis'), Schedule.spaced(Duration.seconds(2))]),
)
