/** `command.batches`: batches and their outcome at acceptance. Without `sealed_at` it is open. */
import { encodeId, type Mode } from '@hub/domain'
import { type Queries, ReadMessages, type SqlFragment, uuidOf } from '@hub/store'
import type { BatchRow } from '../ledger.port.ts'

/** Inserts batches, or updates open ones. Returns the ids (UUIDs) of the written rows. */
export const writeBatches = (q: Queries, batches: ReadonlyArray<BatchRow>) => q<{ id: string }[]>`
  INSERT INTO command.batches AS b (id, account, mode, total, accepted, duplicate, rejected, created_at, sealed_at)
  SELECT id, account, mode::command.mode, total, accepted, duplicate, rejected,
         timestamptz 'epoch' + created * interval '1 millisecond', timestamptz 'epoch' + sealed * interval '1 millisecond'
    FROM unnest(${batches.map(({ id }) => uuidOf('bat', id))}::uuid[], ${batches.map(({ owner }) => owner.accountUuid)}::uuid[],
                ${batches.map(({ owner }) => owner.mode)}::text[], ${batches.map(({ total }) => String(total))}::integer[],
                ${batches.map(({ accepted }) => String(accepted))}::integer[],
                ${batches.map(({ duplicate }) => String(duplicate))}::integer[],
                ${batches.map(({ rejected }) => String(rejected))}::integer[],
                ${batches.map(({ createdAt }) => String(createdAt))}::bigint[],
                ${batches.map(({ sealedAt }) => (sealedAt === null ? null : String(sealedAt)))}::bigint[])
         AS new (id, account, mode, total, accepted, duplicate, rejected, created, sealed)
   ORDER BY id
  ON CONFLICT (id) DO UPDATE
     SET accepted = excluded.accepted, duplicate = excluded.duplicate, rejected = excluded.rejected,
         sealed_at = excluded.sealed_at
   WHERE b.sealed_at IS NULL
  RETURNING id`

/**
 * Seals open batches, with an outbox row of their records. Returns its id; `null`: none was open.
 */
export const sealBatches = async (
  q: Queries,
  batches: ReadonlyArray<BatchRow>,
  records: Uint8Array,
): Promise<number | null> => {
  const [row] = await q<{ id: string }[]>`
    WITH written AS (${writeBatches(q, batches)})
    INSERT INTO command.outbox (records) SELECT ${records}::bytea WHERE EXISTS (SELECT 1 FROM written) RETURNING id`
  return row === undefined ? null : Number(row.id)
}

/** Locks the batches of messages against sealing (shared). */
export const lockBatchesOf = (q: Queries, messageIds: ReadonlyArray<string>) => q`
  SELECT 1 FROM command.batches
   WHERE id IN (SELECT batch_id FROM command.acceptances WHERE message_id = ANY (${messageIds.map((id) => uuidOf('msg', id))}::uuid[]))
   ORDER BY id FOR SHARE`

/** Locks a batch (`bat_…`) that is to be sealed or deleted. */
export const lockBatch = (q: Queries, batch: string) =>
  q`SELECT 1 FROM command.batches WHERE id = ${uuidOf('bat', batch)} FOR UPDATE`

/** Deletes an open batch (`bat_…`) whose messages were all refunded. */
export const deleteEmptyBatch = (q: Queries, batch: string) => q`
  DELETE FROM command.batches b
   WHERE b.id = ${uuidOf('bat', batch)} AND b.sealed_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM command.acceptances a WHERE a.batch_id = b.id AND NOT a.given_back)`

interface OpenBatchRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly total: number
  readonly duplicate: number
  readonly created_at: Date
  readonly now: Date
  readonly accepted: number
}

/**
 * Locks open batches that are older than `olderThanSeconds` and whose members are certain, and
 * counts them. The members are certain if each code is in the read model, refunded, or too old to
 * be published. A code belongs to the batch that the read model names: a process may have recorded
 * it in another batch and ended before it published the code there.
 */
export const lockOpenBatches = (
  q: Queries,
  olderThanSeconds: number,
  limit: number,
): Promise<ReadonlyArray<BatchRow & { readonly sealedAt: number }>> =>
  lockSettled(q, q`b.created_at < now() - make_interval(secs => ${olderThanSeconds})`, limit)

/** Like `lockOpenBatches`, for batches (`bat_…`) whose requests have ended. */
export const lockSettledBatches = (
  q: Queries,
  batches: ReadonlyArray<string>,
): Promise<ReadonlyArray<BatchRow & { readonly sealedAt: number }>> =>
  lockSettled(q, q`b.id = ANY (${batches.map((id) => uuidOf('bat', id))}::uuid[])`, batches.length)

/** Those of the batches (`bat_…`) that are open. */
export const selectOpenBatches = async (
  q: Queries,
  batches: ReadonlyArray<string>,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ id: string }[]>`
    SELECT id FROM command.batches
     WHERE id = ANY (${batches.map((id) => uuidOf('bat', id))}::uuid[]) AND sealed_at IS NULL`
  return rows.map(({ id }) => encodeId('bat', id))
}

const lockSettled = async (
  q: Queries,
  condition: SqlFragment,
  limit: number,
): Promise<ReadonlyArray<BatchRow & { readonly sealedAt: number }>> => {
  const rows = await q<OpenBatchRow[]>`
    SELECT b.id, b.account, b.mode, b.total, b.duplicate, b.created_at, clock_timestamp() AS now,
           coalesce(m.accepted, 0)::integer AS accepted
      FROM command.batches b
      LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE a.class = 'service') + ${ReadMessages.countCodesOfBatch(q, 'b.id')} AS accepted,
               count(*) FILTER (WHERE a.class = 'otp' AND NOT a.given_back AND a.expires_at > now() - interval '1 minute'
                                  AND NOT ${ReadMessages.isProjected(q, 'a.message_id')}) AS unproven
          FROM command.acceptances a
         WHERE a.batch_id = b.id) AS m ON true
     WHERE b.sealed_at IS NULL AND ${condition} AND m.unproven = 0
     ORDER BY b.created_at LIMIT ${limit} FOR UPDATE OF b SKIP LOCKED`
  return rows.map((row) => ({
    id: encodeId('bat', row.id),
    owner: { account: encodeId('acc', row.account), accountUuid: row.account, mode: row.mode },
    total: row.total,
    accepted: row.accepted,
    duplicate: Math.min(row.duplicate, row.total - row.accepted),
    rejected: Math.max(0, row.total - row.accepted - row.duplicate),
    createdAt: row.created_at.getTime(),
    sealedAt: row.now.getTime(),
  }))
}
