/** `webhooks.redeliveries`: requested redeliveries. The fan-out writes their progress. */
import { encodeId, type Mode } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { NewBatch, OpenRedelivery, RedeliveryProgress } from './store.port.ts'

interface RedeliveryRow {
  readonly id: string
  readonly endpoint_id: string
  readonly account: string
  readonly mode: Mode
  readonly after_sequence: string
  readonly created_before: Date
  readonly pending: number
}

/** Those that are not finished, oldest first, at most a hundred. */
export const selectOpenRedeliveries = async (q: Queries): Promise<ReadonlyArray<OpenRedelivery>> => {
  const rows = await q<RedeliveryRow[]>`
    SELECT r.id, r.endpoint_id, e.account, e.mode, r.after_sequence, r.created_before,
           (SELECT count(*) FROM webhooks.batches b
             WHERE b.endpoint_id = e.id AND b.redelivery = r.id)::integer AS pending
      FROM webhooks.redeliveries r JOIN webhooks.endpoints e ON e.id = r.endpoint_id
     WHERE r.finished_at IS NULL AND e.deleted_at IS NULL
     ORDER BY r.requested_at LIMIT 100`
  return rows.map((row) => ({
    id: row.id,
    endpoint: row.endpoint_id,
    account: encodeId('acc', row.account),
    mode: row.mode,
    afterSequence: Number(row.after_sequence),
    createdBefore: row.created_before.getTime(),
    pending: row.pending,
  }))
}

export const moveRedelivery = (
  q: Queries,
  progress: RedeliveryProgress,
  batches: ReadonlyArray<NewBatch>,
) => q`
  UPDATE webhooks.redeliveries SET
    after_sequence = ${progress.afterSequence},
    events = events + ${batches.reduce((sum, { events }) => sum + events.length, 0)},
    batches = batches + ${batches.length},
    finished_at = ${progress.finished ? q`now()` : null}
  WHERE id = ${progress.id}`
