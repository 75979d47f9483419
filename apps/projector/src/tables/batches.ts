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
import { add, type Column, insertRows, keepFirst } from './bulk-rows.ts'
import { accountUuid, batchUuid, type ReadSchema, tableIn } from './read-schema.ts'

interface Written {
  readonly batch: string
  readonly account: string
  readonly mode: Mode
  readonly change: BatchDelta | undefined
  readonly seal: BatchSealed | undefined
}

const KEY: ReadonlyArray<Column<Written>> = [
  { name: 'id', type: 'uuid', value: ({ batch }) => batchUuid(batch) },
  { name: 'account', type: 'uuid', value: ({ account }) => accountUuid(account) },
  { name: 'mode', type: 'command.mode', value: ({ mode }) => mode },
]

/** The columns that the first seal defines. */
const SEAL_COLUMNS: ReadonlyArray<Column<Written>> = [
  { name: 'created_at', type: 'timestamptz', value: ({ seal }) => seal && toTimestamp(seal.createdAt) },
  { name: 'sealed_at', type: 'timestamptz', value: ({ seal }) => seal && toTimestamp(seal.at) },
  { name: 'total', type: 'integer', value: ({ seal }) => seal?.total },
  { name: 'accepted', type: 'integer', value: ({ seal }) => seal?.accepted },
  { name: 'duplicate', type: 'integer', value: ({ seal }) => seal?.duplicate },
  { name: 'rejected', type: 'integer', value: ({ seal }) => seal?.rejected },
]

/** The columns to which messages add. */
const COUNT_COLUMNS: ReadonlyArray<Column<Written>> = [
  { name: 'members', type: 'integer', value: ({ change }) => change?.members ?? 0 },
  { name: 'final', type: 'integer', value: ({ change }) => change?.final ?? 0 },
  { name: 'delivered', type: 'integer', value: ({ change }) => change?.delivered ?? 0 },
  { name: 'undelivered', type: 'integer', value: ({ change }) => change?.undelivered ?? 0 },
  { name: 'rejected_by_operator', type: 'integer', value: ({ change }) => change?.rejected ?? 0 },
  { name: 'expired', type: 'integer', value: ({ change }) => change?.expired ?? 0 },
]

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
  const rows: ReadonlyArray<Written> = [...new Set([...changed.keys(), ...sealed.keys()])].flatMap(
    (batch) => {
      const [change, seal] = [changed.get(batch), sealed.get(batch)]
      const owner = change ?? seal
      return owner === undefined ? [] : [{ batch, account: owner.account, mode: owner.mode, change, seal }]
    },
  )
  return q`
    ${insertRows(q, `${schema}.batches`, [...KEY, ...SEAL_COLUMNS, ...COUNT_COLUMNS], rows)} ORDER BY id
    ON CONFLICT (id) DO UPDATE SET ${keepFirst(q, SEAL_COLUMNS)}, ${add(q, COUNT_COLUMNS)}`
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
    ...ReadBatches.toProgress(encodeId('bat', row.id), row, true),
    account: encodeId('acc', row.account),
    mode: row.mode,
  }))
}
