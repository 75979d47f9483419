/** The delivery log as clients read it. Source: specification, Delivery log entry; contract, Webhook subscription. */
import type { DeliveryReason, Page, WebhookDelivery } from '@hub/contract'
import { decodeId, encodeId, toTimestamp } from '@hub/domain'
import type { Queries } from '@hub/store'
import { type Found, foundIn } from '../paging/page.ts'

interface AttemptRow {
  readonly id: string
  readonly batch_id: string
  readonly event_ids: ReadonlyArray<string>
  readonly attempt: number
  readonly status: 'succeeded' | 'failed'
  readonly response_code: number | null
  readonly duration_ms: number
  readonly reason: DeliveryReason | null
  readonly trial: boolean
  readonly redelivery: boolean
  readonly created_at: Date
  readonly next_attempt_at: Date | null
}

const deliveryBody = (row: AttemptRow): WebhookDelivery => ({
  id: encodeId('whd', row.id),
  object: 'webhook_delivery',
  event_batch: encodeId('evb', row.batch_id),
  event_ids: row.event_ids.map((id) => encodeId('evt', id)),
  attempt: row.attempt,
  status: row.status,
  response_code: row.response_code,
  duration_ms: row.duration_ms,
  reason: row.reason,
  trial: row.trial,
  redelivery: row.redelivery,
  created_at: toTimestamp(row.created_at.getTime()),
  next_attempt_at: row.next_attempt_at === null ? null : toTimestamp(row.next_attempt_at.getTime()),
})

const columns = (q: Queries) => q`
  a.id, a.batch_id, a.attempt, a.status, a.response_code, a.duration_ms, a.reason, a.trial, a.redelivery IS NOT NULL AS redelivery,
  a.created_at, a.next_attempt_at,
  ARRAY(SELECT b.event_id FROM webhooks.batch_events b WHERE b.batch_id = a.batch_id AND b.endpoint_id = a.endpoint_id
         ORDER BY b.position) AS event_ids`

/** One attempt (UUID) of a subscription (UUID); `null` where there is none, or none yet. */
export const readDelivery = async (
  q: Queries,
  endpoint: string,
  attempt: string,
): Promise<WebhookDelivery | null> => {
  const [row] = await q<AttemptRow[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a WHERE a.id = ${attempt} AND a.endpoint_id = ${endpoint}`
  return row === undefined ? null : deliveryBody(row)
}

/**
 * Newest first; `null` when `startingAfter` names none of this subscription's (UUID). Three years are what the log goes back, whether the
 * rows are still there or not. Source: specification, Retention.
 */
export const pageDeliveries = async (
  q: Queries,
  endpoint: string,
  { limit, startingAfter }: Page,
): Promise<Found<WebhookDelivery> | null> => {
  let below = q``
  if (startingAfter !== null) {
    const after = decodeId('whd', startingAfter)
    const known =
      after === null
        ? []
        : await q`
            SELECT 1 FROM webhooks.attempts
             WHERE id = ${after} AND endpoint_id = ${endpoint} AND created_at > now() - interval '3 years'`
    if (known.length === 0) return null
    below = q`AND a.id < ${after}`
  }
  const rows = await q<AttemptRow[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a
     WHERE a.endpoint_id = ${endpoint} AND a.created_at > now() - interval '3 years' ${below}
     ORDER BY a.id DESC LIMIT ${limit + 1}`
  return foundIn(rows, limit, deliveryBody)
}
