/**
 * `read.batches`: counts over the messages of a batch.
 *
 * Messages of a batch belong to several shards, so several projectors write a row. Each statement
 * locks rows in the order of their ids, and every transaction uses the same order of tables
 * (batches, daily statistics, hourly statistics, spend periods, journal heads). So projectors wait
 * for each other but cannot deadlock.
 */
import { encodeId, type Mode, toTimestamp } from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import { type Queries, ReadBatches } from '@hub/store'
import type { BatchDelta } from '../messages/aggregate-deltas.ts'
import type { ClosedBatch } from '../store/projection-store.port.ts'
import { accountUuid, batchUuid, type ReadSchema, tableIn } from './read-schema.ts'

/**
 * Adds to the counts of batches, and stores their first seals. The rows stay locked until the
 * transaction ends, so the transaction with the last messages sees all counts.
 */
export const writeBatches = (
  q: Queries,
  changes: ReadonlyArray<BatchDelta>,
  seals: ReadonlyArray<BatchSealed>,
  schema: ReadSchema = 'read',
) => {
  const changed = new Map(changes.map((change) => [change.batch, change]))
  const sealed = new Map(seals.toReversed().map((seal) => [seal.batch, seal]))
  const rows = [...new Set([...changed.keys(), ...sealed.keys()])].flatMap((batch) => {
    const [change, seal] = [changed.get(batch), sealed.get(batch)]
    const owner = change ?? seal
    return owner === undefined ? [] : [{ batch, account: owner.account, mode: owner.mode, change, seal }]
  })
  const counts = (field: keyof Omit<BatchDelta, 'batch' | 'account' | 'mode'>) =>
    rows.map(({ change }) => change?.[field] ?? 0)
  const sealField = (field: 'total' | 'accepted' | 'duplicate' | 'rejected') =>
    rows.map(({ seal }) => seal?.[field] ?? null)
  const timestamp = (field: 'createdAt' | 'at') =>
    rows.map(({ seal }) => (seal === undefined ? null : toTimestamp(seal[field])))
  return q`
    INSERT INTO ${tableIn(q, schema, 'batches')} AS b (id, account, mode, created_at, sealed_at, total, accepted, duplicate, rejected,
                                   members, final, delivered, undelivered, rejected_by_operator, expired)
    SELECT id, account, mode::command.mode, created_at, sealed_at, total, accepted, duplicate, rejected,
           members, final, delivered, undelivered, rejected_by_operator, expired
      FROM unnest(${rows.map((r) => batchUuid(r.batch))}::uuid[], ${rows.map((r) => accountUuid(r.account))}::uuid[],
                  ${rows.map((r) => r.mode)}::text[], ${timestamp('createdAt')}::timestamptz[],
                  ${timestamp('at')}::timestamptz[], ${sealField('total')}::integer[], ${sealField('accepted')}::integer[],
                  ${sealField('duplicate')}::integer[], ${sealField('rejected')}::integer[], ${counts('members')}::integer[],
                  ${counts('final')}::integer[], ${counts('delivered')}::integer[], ${counts('undelivered')}::integer[],
                  ${counts('rejected')}::integer[], ${counts('expired')}::integer[])
        AS w (id, account, mode, created_at, sealed_at, total, accepted, duplicate, rejected,
              members, final, delivered, undelivered, rejected_by_operator, expired)
     ORDER BY id
    ON CONFLICT (id) DO UPDATE SET
      created_at = coalesce(b.created_at, excluded.created_at), sealed_at = coalesce(b.sealed_at, excluded.sealed_at),
      total = coalesce(b.total, excluded.total), accepted = coalesce(b.accepted, excluded.accepted),
      duplicate = coalesce(b.duplicate, excluded.duplicate), rejected = coalesce(b.rejected, excluded.rejected),
      members = b.members + excluded.members, final = b.final + excluded.final,
      delivered = b.delivered + excluded.delivered, undelivered = b.undelivered + excluded.undelivered,
      rejected_by_operator = b.rejected_by_operator + excluded.rejected_by_operator,
      expired = b.expired + excluded.expired`
}

interface Row extends ReadBatches.CountColumns {
  readonly id: string
  readonly account: string
  readonly mode: Mode
}

/**
 * Closes the sealed batches (`bat_…`, locked by `writeBatches`) whose messages are all final, and
 * returns them. Each batch is returned to one transaction only. A message whose publication seemed
 * to fail may be in Kafka nevertheless. Then the batch has more members than its seal says, and
 * waits for all of them.
 */
export const closeBatches = async (
  q: Queries,
  batches: ReadonlyArray<{ readonly batch: string }>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyArray<ClosedBatch>> => {
  const rows = await q<Row[]>`
    UPDATE ${tableIn(q, schema, 'batches')} SET closed = true
     WHERE id = ANY (${batches.map(({ batch }) => batchUuid(batch))}::uuid[])
       AND NOT closed AND sealed_at IS NOT NULL AND final >= accepted AND final = members
    RETURNING id, account, mode, created_at, total, accepted, duplicate, rejected,
              delivered, undelivered, rejected_by_operator, expired`
  return rows.map((row) => ({
    ...ReadBatches.toTally(encodeId('bat', row.id), row, true),
    account: encodeId('acc', row.account),
    mode: row.mode,
  }))
}
