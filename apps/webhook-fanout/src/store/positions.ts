/** `webhooks.positions`: next offset and owner's epoch of a partition. Owner: webhook-fanout. */
import type { Queries } from '@hub/store'
import type { Ownership } from './store.port.ts'

/**
 * Raises the epoch: the transactions of all earlier owners fail from now on. `FOR UPDATE` waits for
 * outcomes that an earlier owner is recording, so the new owner reads their results.
 */
export const acquirePosition = async (q: Queries, partition: number) => {
  await q`
    INSERT INTO webhooks.positions (partition, position, epoch) VALUES (${partition}, -1, 0)
    ON CONFLICT DO NOTHING`
  await q`SELECT 1 FROM webhooks.positions WHERE partition = ${partition} FOR UPDATE`
  const [row] = await q<{ epoch: string; position: string }[]>`
    UPDATE webhooks.positions SET epoch = epoch + 1 WHERE partition = ${partition} RETURNING epoch, position`
  return { epoch: Number(row?.epoch), position: Number(row?.position) }
}

/**
 * Prevents that another process acquires the partition during the transaction. False: it has done
 * so. `FOR KEY SHARE` lets `movePosition` pass, so that new batches are stored meanwhile.
 */
export const lockOwnership = async (q: Queries, { epoch, partition }: Ownership): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM webhooks.positions WHERE partition = ${partition} AND epoch = ${epoch} FOR KEY SHARE`
  return rows.length === 1
}

/** Moves the position, never back. False: another process owns the partition. */
export const movePosition = async (
  q: Queries,
  { epoch, partition }: Ownership,
  position: number,
): Promise<boolean> => {
  const moved = await q`
    UPDATE webhooks.positions SET position = greatest(position, ${position})
    WHERE partition = ${partition} AND epoch = ${epoch}`
  return moved.count === 1
}
