/**
 * Folds a batch of records into the tables of a rebuild. The fold, the statements and the order of
 * tables are those of the live projection. It records no events and refunds nothing.
 */
import type { MessageAccepted, MessageFact } from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import { Sql, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import { closingCandidates } from '../aggregates/aggregate-events.ts'
import { type Changes, fold } from '../messages/fold.ts'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import {
  type CheckpointAdvance,
  checkpointsAfter,
  writeMessages,
  writeSums,
} from '../projection/transaction.ts'
import { closeBatches } from '../tables/batches.ts'
import { appendCharges } from '../tables/charges.ts'
import { lockCheckpoints, updateCheckpoints } from '../tables/checkpoints.ts'
import { readMessages } from '../tables/messages.ts'
import { personalDataRows, writePersonalData } from '../tables/personal-data.ts'
import { type RebuildLease, renewLease } from '../tables/rebuilds.ts'
import { type Bounds, isFrom } from './horizon.ts'

/** What the records of a batch mean for the tables of the rebuild. */
interface RebuildBatch {
  readonly advances: ReadonlyArray<CheckpointAdvance>
  readonly facts: ReadonlyArray<MessageFact>
  readonly seals: ReadonlyArray<BatchSealed>
  /** Number of records. */
  readonly records: number
}

/** A batch takes some hundred milliseconds. The deadline allows for a database under stress. */
const DEADLINE_MS = 8000

/** Leaves out changes of rows that are copied from the live tables. */
const withinBounds = (changes: Changes, bounds: Bounds): Changes => ({
  ...changes,
  operatorIds: changes.operatorIds.filter(({ messageId }) => isFrom(bounds.operatorIds, 'msg', messageId)),
  batches: changes.batches.filter(({ batch }) => isFrom(bounds.batches, 'bat', batch)),
  stats: changes.stats.filter(({ day }) => day >= bounds.day),
})

/**
 * `lost`: another projector has the lease, or the rebuild has ended. `moved`: the checkpoints are
 * not those from which the batch was read. Both change nothing.
 */
type FoldResult = 'folded' | 'lost' | 'moved'

export const foldBatch = (
  lease: RebuildLease,
  bounds: Bounds,
  batch: RebuildBatch,
): Effect.Effect<FoldResult, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction<FoldResult>(
      async (q) => {
        const { advances, records } = batch
        const facts = batch.facts.filter(({ messageId }) => isFrom(bounds.rows, 'msg', messageId))
        const seals = batch.seals.filter((seal) => isFrom(bounds.batches, 'bat', seal.batch))
        const messageIds = [...new Set(facts.map(({ messageId }) => messageId))]
        if (!(await renewLease(q, lease, { records }))) return 'lost'
        const [stored, rows] = await Promise.all([
          lockCheckpoints(
            q,
            advances.map(({ owned }) => owned),
            'rebuild',
          ),
          messageIds.length === 0 ? new Map() : readMessages(q, messageIds, 'rebuild'),
        ])
        const areAt = (position: (advance: CheckpointAdvance) => number) =>
          advances.every((advance) =>
            stored.some(
              (one) =>
                one.topic === advance.owned.topic &&
                one.partition === advance.owned.partition &&
                one.position === position(advance),
            ),
          )
        // An earlier attempt with an unknown outcome may have been committed.
        if (areAt(({ to }) => to)) return 'folded'
        if (!areAt(({ owned }) => owned.position)) return 'moved'
        const changes = withinBounds(fold(rows, facts), bounds)
        const candidates = closingCandidates(changes.batches, seals)
        await Promise.all([
          updateCheckpoints(q, checkpointsAfter(advances), 'rebuild'),
          ...writeMessages(q, changes, 'rebuild'),
          ...writeSums(q, changes, seals, 'rebuild'),
          ...(changes.charges.length > 0 ? [appendCharges(q, changes.charges, 'rebuild')] : []),
        ])
        if (candidates.length > 0) await closeBatches(q, candidates, 'rebuild')
        return 'folded'
      },
      { deadline: DEADLINE_MS },
    ),
  )

/**
 * Stores missing numbers and texts in `read.personal_data`, which is never rebuilt. An erased
 * recipient stays erased (docs/decisions/0019).
 */
export const restorePersonalData = (
  lease: RebuildLease,
  facts: ReadonlyArray<MessageAccepted>,
  encrypted: ReadonlyMap<string, EncryptedPersonalData>,
): Effect.Effect<'restored' | 'lost', StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      const rows = personalDataRows(facts, encrypted)
      if (rows.length === 0) return 'restored'
      if (!(await renewLease(q, lease))) return 'lost'
      const { count } = await writePersonalData(q, rows)
      await renewLease(q, lease, { restored: count })
      return 'restored'
    }),
  )
