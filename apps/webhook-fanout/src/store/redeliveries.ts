/** `webhooks.redeliveries`: requested redeliveries. The fan-out writes their progress. */
import { encodeId } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { NewWebhookBatch, OpenRedelivery, RedeliveryProgress } from './store.port.ts'

/** Those that are not finished, oldest first, at most 100. */
export const selectOpenRedeliveries = async (q: Queries): Promise<ReadonlyArray<OpenRedelivery>> => {
  const rows = await q<OpenRedelivery[]>`
    SELECT r.id, r.endpoint_id AS "subscriptionId", e.account, e.mode, r.after_sequence::float8 AS "afterSequence", r.event_id AS event,
           (extract(epoch FROM r.created_before) * 1000)::float8 AS "createdBefore",
           (SELECT count(*) FROM webhooks.batches b
             WHERE b.endpoint_id = e.id AND b.redelivery = r.id)::integer AS pending
      FROM webhooks.redeliveries r JOIN webhooks.endpoints e ON e.id = r.endpoint_id
     WHERE r.finished_at IS NULL AND e.deleted_at IS NULL
     ORDER BY r.requested_at LIMIT 100`
  return rows.map((row) => ({
    ...row,
    account: encodeId('acc', row.account),
    event: row.event === null ? null : encodeId('evt', row.event),
  }))
}

export const moveRedelivery = (
  q: Queries,
  progress: RedeliveryProgress,
  batches: ReadonlyArray<NewWebhookBatch>,
) => q`
  UPDATE webhooks.redeliveries SET
    after_sequence = ${progress.afterSequence},
    events = events + ${batches.reduce((sum, { events }) => sum + events.length, 0)},
    batches = batches + ${batches.length},
    finished_at = ${progress.finished ? q`now()` : null}
  WHERE id = ${progress.id}`
