/** `webhooks.positions`: next offset and owner's epoch of a partition. Owner: webhook-fanout. */
import type { Queries } from '@hub/store'
import type { Ownership } from './store.port.ts'

/** Raises the epoch: the transactions of all earlier owners fail from now on. */
export const acquirePosition = async (q: Queries, partition: number) => {
  const [row] = await q<{ epoch: string; position: string }[]>`
    INSERT INTO webhooks.positions (partition, position, epoch) VALUES (${partition}, -1, 1)
    ON CONFLICT (partition) DO UPDATE SET epoch = webhooks.positions.epoch + 1
    RETURNING epoch, position`
  return { epoch: Number(row?.epoch), position: Number(row?.position) }
}

/** Locks the row for the rest of the transaction. False: another process owns the partition. */
export const lockOwnership = async (q: Queries, { epoch, partition }: Ownership): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM webhooks.positions WHERE partition = ${partition} AND epoch = ${epoch} FOR SHARE`
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
