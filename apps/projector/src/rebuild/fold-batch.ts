/**
 * Folds a batch of records into the tables of a rebuild. The fold, the statements and the order of
 * tables are those of the live projection. It records no events and refunds nothing.
 */
import type { MessageAccepted } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import { closingCandidates } from '../events/aggregate-events.ts'
import { type Changes, fold } from '../messages/fold.ts'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import {
  checkpointsAfter,
  compareCheckpoints,
  type DecodedBatch,
  readsOf,
} from '../projection/transaction.ts'
import { lockAndRead, writeMessages, writeSums } from '../store/batch-statements.ts'
import { closeBatches } from '../tables/batches.ts'
import { appendCharges } from '../tables/charges.ts'
import { personalDataRows, writePersonalData } from '../tables/personal-data.ts'
import { type RebuildLease, renewLease } from './lease.ts'
import { type Bounds, isFrom } from './horizon.ts'

/** A batch takes some hundred milliseconds. The deadline allows for a database under stress. */
const DEADLINE_MS = 8000

/** Leaves out changes of rows that are copied from the live tables. */
const withinBounds = (changes: Changes, bounds: Bounds): Changes => ({
  ...changes,
  operatorIds: changes.operatorIds.filter(({ messageId }) => isFrom(bounds.operatorIds, 'msg', messageId)),
  batches: changes.batches.filter(({ batch }) => isFrom(bounds.batches, 'bat', batch)),
  dailyStats: changes.dailyStats.filter(({ day }) => day >= bounds.day),
  // The text of an hour begins with its day.
  hourlyStats: changes.hourlyStats.filter(({ hour }) => hour >= bounds.day),
  rangeStats: changes.rangeStats.filter(({ hour }) => hour >= bounds.day),
})

/**
 * `lost`: another projector has the lease, or the rebuild has ended. `moved`: the checkpoints are
 * not those from which the batch was read. Both change nothing.
 */
type FoldResult = 'folded' | 'lost' | 'moved'

/** `records`: the number of records of the batch. */
export const foldBatch = (
  lease: RebuildLease,
  bounds: Bounds,
  batch: Pick<DecodedBatch, 'advances' | 'facts' | 'seals'>,
  records: number,
): Effect.Effect<FoldResult, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction<FoldResult>(
      async (q) => {
        const { advances } = batch
        const facts = batch.facts.filter(({ messageId }) => isFrom(bounds.rows, 'msg', messageId))
        const seals = batch.seals.filter((seal) => isFrom(bounds.batches, 'bat', seal.batch))
        if (!(await renewLease(q, lease, { records }))) return 'lost'
        const { checkpoints, rows } = await lockAndRead(q, readsOf(advances, facts), 'rebuild')
        const comparison = compareCheckpoints(advances, checkpoints)
        if (comparison === 'applied_before') return 'folded'
        if (comparison === 'superseded') return 'moved'
        const changes = withinBounds(fold(rows, facts), bounds)
        const candidates = closingCandidates(changes.batches, seals)
        await Promise.all([
          ...writeMessages(q, checkpointsAfter(advances), changes, 'rebuild'),
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
 * recipient stays erased (docs/decisions/erasure.md).
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
