/** Deletes the batches and attempts of deleted subscriptions, in small steps. */
import type { Queries } from '@hub/store'

/** Rows of a table in one step: some tens of milliseconds. */
const ROWS_PER_STEP = 2000

/**
 * When a deleted subscription counts as purged. A process that has not read the deletion yet may
 * still write for it, but not longer than the retry window of a day.
 */
const PURGED_AFTER_DAYS = 2

/**
 * Deletes some rows. Returns how many; 0: none are left for now. The row of the subscription itself
 * stays, so that its id remains known as deleted.
 */
export const purgeDeleted = async (q: Queries): Promise<number> => {
  const deleted = await q<{ id: string }[]>`
    SELECT id FROM webhooks.endpoints WHERE deleted_at IS NOT NULL AND cleared_at IS NULL ORDER BY id LIMIT 1000
      FOR UPDATE SKIP LOCKED`
  if (deleted.length === 0) return 0
  const ids = deleted.map((row) => row.id)
  const events = await q<{ batch_id: string }[]>`
    DELETE FROM webhooks.batch_events WHERE (endpoint_id, event_id) IN (
      SELECT endpoint_id, event_id FROM webhooks.batch_events WHERE endpoint_id = ANY(${ids}::uuid[])
       LIMIT ${ROWS_PER_STEP})
    RETURNING batch_id`
  await q`
    DELETE FROM webhooks.batches WHERE id = ANY(${[...new Set(events.map((row) => row.batch_id))]}::uuid[])`
  const attempts = await q`
    DELETE FROM webhooks.attempts WHERE (endpoint_id, id) IN (
      SELECT endpoint_id, id FROM webhooks.attempts WHERE endpoint_id = ANY(${ids}::uuid[]) LIMIT ${ROWS_PER_STEP})`
  const purged = events.length + attempts.count
  if (purged === 0) {
    await q`
      UPDATE webhooks.endpoints SET cleared_at = now()
       WHERE id = ANY(${ids}::uuid[]) AND deleted_at < now() - make_interval(days => ${PURGED_AFTER_DAYS})`
  }
  return purged
}
