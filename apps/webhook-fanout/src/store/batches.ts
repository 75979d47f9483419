/**
 * `webhooks.batches`: batches that wait for their delivery. A batch that has ended is deleted; its
 * attempts are in `webhooks.attempts`. Owner: webhook-fanout.
 */
import type { BatchDeliveryState } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import type { PendingBatch } from '../subscriptions/pending-batch.ts'
import { isoText } from './times.ts'

export interface NewBatchRow {
  /** UUID of the subscription. */
  readonly subscriptionId: string
  readonly firstSequence: number
  readonly eventCount: number
  readonly body: string
  readonly batch: PendingBatch
}

export const insertBatches = (q: Queries, partition: number, rows: ReadonlyArray<NewBatchRow>, at: Date) => q`
  INSERT INTO webhooks.batches ${q(
    rows.map(({ batch, body, subscriptionId, eventCount, firstSequence }) => ({
      id: batch.uuid,
      endpoint_id: subscriptionId,
      partition,
      first_sequence: firstSequence,
      event_count: eventCount,
      body,
      queued_at: at,
      scheduled_at: at,
      next_attempt_at: at,
      redelivery: batch.redelivery,
    })),
  )}`

/** A batch (UUID) before and after an outcome. */
interface BatchChange {
  readonly uuid: string
  readonly before: BatchDeliveryState
  readonly after: BatchDeliveryState
}

/**
 * Deletes the batches that have ended and reschedules the others. A batch changes only if it still
 * has the number of attempts from before its outcome. Returns the UUIDs of the changed batches.
 */
export const applyChanges = async (
  q: Queries,
  changes: ReadonlyArray<BatchChange>,
): Promise<ReadonlySet<string>> => {
  const ended = changes.filter(({ after }) => after.dueAt === null)
  const waiting = changes.filter(({ after }) => after.dueAt !== null)
  const changed = new Set<string>()
  if (ended.length > 0) {
    const rows = await q<{ id: string }[]>`
      DELETE FROM webhooks.batches b
      USING unnest(
        ${sqlArray(ended.map(({ uuid }) => uuid))}::uuid[],
        ${sqlArray(ended.map(({ before }) => before.attempts))}::integer[]
      ) AS p (id, known)
      WHERE b.id = p.id AND b.attempts = p.known
      RETURNING b.id`
    for (const { id } of rows) changed.add(id)
  }
  if (waiting.length > 0) {
    const rows = await q<{ id: string }[]>`
      UPDATE webhooks.batches b SET
        attempts = p.attempts,
        early_attempts = b.early_attempts + p.early,
        scheduled_at = p.scheduled_at,
        next_attempt_at = p.due_at
      FROM unnest(
        ${sqlArray(waiting.map(({ uuid }) => uuid))}::uuid[],
        ${sqlArray(waiting.map(({ before }) => before.attempts))}::integer[],
        ${sqlArray(waiting.map(({ after }) => after.attempts))}::integer[],
        ${sqlArray(waiting.map(({ after }) => after.earlyAttempts))}::integer[],
        ${sqlArray(waiting.map(({ after }) => isoText(after.scheduledAt)))}::timestamptz[],
        ${sqlArray(waiting.map(({ after }) => isoText(after.dueAt)))}::timestamptz[]
      ) AS p (id, known, attempts, early, scheduled_at, due_at)
      WHERE b.id = p.id AND b.attempts = p.known
      RETURNING b.id`
    for (const { id } of rows) changed.add(id)
  }
  return changed
}

/** Stores what `resetEarlyAttempts` decides for the batches of a subscription (UUID). */
export const resetEarlyAttempts = (q: Queries, subscriptionId: string) => q`
  UPDATE webhooks.batches SET early_attempts = 0 WHERE endpoint_id = ${subscriptionId} AND early_attempts > 0`

/** Batches that wait, counted up to `limit`. */
export const countBatches = async (q: Queries, limit: number): Promise<number> => {
  const [row] = await q<{ count: number }[]>`
    SELECT count(*)::integer AS count FROM (SELECT 1 FROM webhooks.batches LIMIT ${limit}) AS counted`
  return row?.count ?? 0
}
