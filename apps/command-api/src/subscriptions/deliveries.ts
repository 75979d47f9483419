/** The delivery log. Source: SUB-28 to SUB-31. */
import type { DeliveriesPage, DeliveryReason, WebhookDelivery } from '@hub/contract'
import { decodeId } from '@hub/domain'
import { type Queries, WebhooksAttempts } from '@hub/store'
import { type ResourcePage, toResourcePage } from '../paging/page.ts'

export const deliveryBody = (row: WebhooksAttempts.Attempt): WebhookDelivery => ({
  ...WebhooksAttempts.toDelivery(row),
  // webhook-fanout writes no other reason.
  reason: row.reason as DeliveryReason | null,
})

/**
 * Matching attempts of a subscription (UUID), newest first; `null`: `startingAfter` is not one of
 * its attempts.
 */
export const readDeliveries = async (
  q: Queries,
  subscriptionId: string,
  { limit, startingAfter, ...filter }: DeliveriesPage,
): Promise<ResourcePage<WebhookDelivery> | null> => {
  const below = startingAfter === null ? null : decodeId('whd', startingAfter)
  if (startingAfter !== null && below === null) return null
  const rows = await WebhooksAttempts.readPage(q, subscriptionId, filter, below, limit + 1)
  return rows === null ? null : toResourcePage(rows, limit, deliveryBody)
}
