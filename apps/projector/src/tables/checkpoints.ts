/** `read.checkpoints`: the position and the owner of each partition of the projection. */
import { type Queries, ReadCheckpoints, type SqlFragment } from '@hub/store'
import { type Checkpoint, partitionKey, type TopicPartition } from '../store/projection-store.port.ts'
import { type ReadSchema, tableIn } from './read-schema.ts'

interface Row {
  readonly topic: string
  readonly partition: number
  readonly position: string
  readonly epoch: string
  readonly fence: string
}
const checkpointOf = (row: Row): Checkpoint => ({
  topic: row.topic,
  partition: row.partition,
  position: Number(row.position),
  epoch: Number(row.epoch),
  fence: Number(row.fence),
})

/**
 * Raises the epochs of partitions and returns their positions. Waits for a transaction of the
 * previous owner.
 */
export const acquireCheckpoints = async (
  q: Queries,
  partitions: ReadonlyArray<TopicPartition>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyArray<Checkpoint>> => {
  const rows = await q<Row[]>`
    INSERT INTO ${tableIn(q, schema, 'checkpoints')} AS stored (projection, topic, partition, position, epoch)
    SELECT ${ReadCheckpoints.PROJECTION}, c.topic, c.partition, 0, 1
      FROM unnest(${partitions.map((p) => p.topic)}::text[], ${partitions.map((p) => p.partition)}::integer[])
        AS c (topic, partition)
     ORDER BY c.topic, c.partition
    ON CONFLICT (projection, topic, partition)
      DO UPDATE SET epoch = stored.epoch + 1, updated_at = now()
    RETURNING topic, partition, position, epoch, fence`
  return rows.map(checkpointOf)
}

/** Locks checkpoints, in the same order in every transaction, and returns them. */
export const lockCheckpoints = async (
  q: Queries,
  partitions: ReadonlyArray<TopicPartition>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyArray<Checkpoint>> => {
  const rows = await q<Row[]>`
    SELECT c.topic, c.partition, c.position, c.epoch, c.fence
      FROM ${tableIn(q, schema, 'checkpoints')} c
      JOIN unnest(${partitions.map((p) => p.topic)}::text[], ${partitions.map((p) => p.partition)}::integer[])
        AS w (topic, partition) USING (topic, partition)
     WHERE c.projection = ${ReadCheckpoints.PROJECTION}
     ORDER BY c.topic, c.partition
       FOR UPDATE OF c`
  return rows.map(checkpointOf)
}

/** Moves locked checkpoints. */
export const updateCheckpoints = (
  q: Queries,
  to: ReadonlyArray<Omit<Checkpoint, 'epoch'>>,
  schema: ReadSchema = 'read',
) => q`
  UPDATE ${tableIn(q, schema, 'checkpoints')} c SET position = w.position, fence = w.fence, updated_at = now()
    FROM unnest(${to.map((c) => c.topic)}::text[], ${to.map((c) => c.partition)}::integer[],
                ${to.map((c) => c.position)}::bigint[], ${to.map((c) => c.fence)}::bigint[])
      AS w (topic, partition, position, fence)
   WHERE c.projection = ${ReadCheckpoints.PROJECTION} AND c.topic = w.topic AND c.partition = w.partition`

const selectAll = async (q: Queries, suffix: SqlFragment): Promise<ReadonlyArray<Checkpoint>> => {
  const rows = await q<Row[]>`
    SELECT topic, partition, position, epoch, fence FROM read.checkpoints
     WHERE projection = ${ReadCheckpoints.PROJECTION} ORDER BY topic, partition ${suffix}`
  return rows.map(checkpointOf)
}

/** The checkpoints of the live projection. */
export const readCheckpoints = (q: Queries) => selectAll(q, q``)

/** The same, locked: no batch is applied and no owner changes until the transaction ends. */
export const lockAllCheckpoints = (q: Queries) => selectAll(q, q`FOR UPDATE`)

/** When the last record of each partition was applied, ms; by `partitionKey`. */
export const lastAppliedAt = async (q: Queries): Promise<ReadonlyMap<string, number>> => {
  const rows = await q<{ topic: string; partition: number; updated_at: Date }[]>`
    SELECT topic, partition, updated_at FROM read.checkpoints WHERE projection = ${ReadCheckpoints.PROJECTION}`
  return new Map(rows.map((row) => [partitionKey(row), row.updated_at.getTime()]))
}
