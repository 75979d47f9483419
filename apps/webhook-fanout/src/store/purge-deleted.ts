/**
 * Deletes the batches of deleted subscriptions, in small steps. Their delivery log and the events in
 * it stay for the three years of the log: retention deletes them.
 */
import type { Queries } from '@hub/store'

/** Batches in one step, with at most 100 events each: some tens of milliseconds. */
const BATCHES_PER_STEP = 200

/**
 * When a deleted subscription counts as purged. A process that has not read the deletion yet may
 * still write for it, but not longer than the retry window of a day.
 */
const PURGED_AFTER_DAYS = 2

/**
 * Deletes some batches. Returns how many; 0: none are left for now. The row of the subscription itself
 * stays, so that its id remains known as deleted.
 */
export const purgeDeleted = async (q: Queries): Promise<number> => {
  const deleted = await q<{ id: string }[]>`
    SELECT id FROM webhooks.endpoints WHERE deleted_at IS NOT NULL AND cleared_at IS NULL ORDER BY id LIMIT 1000
      FOR UPDATE SKIP LOCKED`
  if (deleted.length === 0) return 0
  const ids = deleted.map((row) => row.id)
  const batches = await q<{ id: string }[]>`
    DELETE FROM webhooks.batches WHERE id IN (
      SELECT id FROM webhooks.batches WHERE endpoint_id = ANY(${ids}::uuid[]) LIMIT ${BATCHES_PER_STEP})
    RETURNING id`
  // Retention finds the events of a batch by its attempts. Those without any would stay forever.
  await q`
    DELETE FROM webhooks.batch_events e
     WHERE e.batch_id = ANY(${batches.map((row) => row.id)}::uuid[])
       AND NOT EXISTS (SELECT 1 FROM webhooks.attempts a WHERE a.batch_id = e.batch_id)`
  const purged = batches.length
  if (purged === 0) {
    // command-api erased the secrets with the deletion. An older version of it does not know the newer ones.
    await q`
      UPDATE webhooks.endpoints SET cleared_at = now(), header_names = '{}', headers = NULL, client_certificate = NULL,
             client_certificate_fingerprint = NULL, client_certificate_not_after = NULL
       WHERE id = ANY(${ids}::uuid[]) AND deleted_at < now() - make_interval(days => ${PURGED_AFTER_DAYS})`
  }
  return purged
}
