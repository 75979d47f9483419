/** The delivery log. Source: specification, Delivery log entry; contract, Webhook subscription. */
import type { DeliveryReason, Page, WebhookDelivery } from '@hub/contract'
import { decodeId, encodeId, toTimestamp } from '@hub/domain'
import { type Queries, WebhooksAttempts } from '@hub/store'
import { type ResourcePage, toResourcePage } from '../paging/page.ts'

const deliveryBody = (row: WebhooksAttempts.Attempt): WebhookDelivery => ({
  id: encodeId('whd', row.id),
  object: 'webhook_delivery',
  event_batch: encodeId('evb', row.batch_id),
  event_ids: row.event_ids.map((id) => encodeId('evt', id)),
  attempt: row.attempt,
  status: row.status,
  response_code: row.response_code,
  duration_ms: row.duration_ms,
  reason: row.reason as DeliveryReason | null,
  trial: row.trial,
  redelivery: row.redelivery,
  created_at: toTimestamp(row.created_at.getTime()),
  next_attempt_at: row.next_attempt_at === null ? null : toTimestamp(row.next_attempt_at.getTime()),
})

/** One attempt (UUID) of a subscription (UUID); `null` before the fan-out has recorded it. */
export const readDelivery = async (
  q: Queries,
  endpoint: string,
  attempt: string,
): Promise<WebhookDelivery | null> => {
  const row = await WebhooksAttempts.read(q, endpoint, attempt)
  return row === null ? null : deliveryBody(row)
}

/** Attempts of a subscription (UUID), newest first; `null`: `startingAfter` is not one of them. */
export const readDeliveries = async (
  q: Queries,
  endpoint: string,
  { limit, startingAfter }: Page,
): Promise<ResourcePage<WebhookDelivery> | null> => {
  const below = startingAfter === null ? null : decodeId('whd', startingAfter)
  if (startingAfter !== null && below === null) return null
  const rows = await WebhooksAttempts.readPage(q, endpoint, below, limit + 1)
  return rows === null ? null : toResourcePage(rows, limit, deliveryBody)
}
