/** How the projection goes on after a transaction that failed. */
import type { IncomingRecord } from '@hub/kafka'
import { StorageRejected } from '@hub/store'
import { Effect } from 'effect'
import { bisect, recordCount, type TransactionBatch } from './record-buffer.ts'

/** Records that PostgreSQL rejected, with a reason code. */
export type RejectedRecords = ReadonlyMap<IncomingRecord, string>

/**
 * Applies a batch without the records whose data PostgreSQL rejects. A rejected batch is halved
 * until such a record is alone. Then `apply` gets it in `rejected`, and only moves the checkpoint.
 * The second half is not applied unless `isApplied` accepts the result of the first.
 */
export const isolateRejected = <A, E, R>(
  batch: TransactionBatch,
  apply: (batch: TransactionBatch, rejected: RejectedRecords) => Effect.Effect<A, E, R>,
  isApplied: (result: A) => boolean = () => true,
): Effect.Effect<A, Exclude<E, StorageRejected>, R> => {
  type Attempt = Effect.Effect<A, Exclude<E, StorageRejected>, R>
  const attempt = (part: TransactionBatch, rejected: RejectedRecords): Attempt =>
    Effect.catch(apply(part, rejected), (error): Attempt => {
      if (!(error instanceof StorageRejected)) return Effect.fail(error as Exclude<E, StorageRejected>)
      if (recordCount(part) > 1) {
        const [first, second] = bisect(part)
        return Effect.flatMap(attempt(first, rejected), (result) =>
          isApplied(result) ? attempt(second, rejected) : Effect.succeed(result),
        )
      }
      const record = part[0]?.records[0]
      // A rejected record is left out, so its second rejection is our own defect.
      return record === undefined || rejected.has(record)
        ? Effect.die(error)
        : attempt(part, new Map([[record, `storage_rejected_${error.code}`]]))
    })
  return attempt(batch, new Map())
}
