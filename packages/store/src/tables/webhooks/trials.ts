/**
 * `webhooks.trials`: requested test deliveries. command-api and hub staff insert a row; the fan-out
 * takes it (`claimed_at`) and deletes it when it records the attempt. All ids here are UUIDs.
 */
import type { Queries } from '../../sql.ts'
import * as WebhooksResends from './resends.ts'

/**
 * Requests a test delivery in a transaction; false while another one of the subscription, or the most
 * deliveries on demand of the account (UUID), are in progress.
 */
export const request = async (
  q: Queries,
  {
    account,
    subscriptionId,
    id,
  }: { readonly account: string; readonly subscriptionId: string; readonly id: string },
): Promise<boolean> => {
  if (!(await WebhooksResends.hasPlace(q, account, subscriptionId))) return false
  const rows = await q`
    INSERT INTO webhooks.trials AS t (endpoint_id, id) VALUES (${subscriptionId}, ${id})
    ON CONFLICT (endpoint_id) DO UPDATE SET id = excluded.id, requested_at = now(), claimed_at = NULL
      WHERE t.requested_at < now() - make_interval(secs => ${WebhooksResends.ABANDONED_SECONDS})
    RETURNING id`
  return rows.length === 1
}

/** Whether the fan-out has taken the test delivery; `null` when the row is gone. */
export const isTaken = async (q: Queries, subscriptionId: string, id: string): Promise<boolean | null> => {
  const [row] = await q<{ taken: boolean }[]>`
    SELECT claimed_at IS NOT NULL AS taken FROM webhooks.trials WHERE endpoint_id = ${subscriptionId} AND id = ${id}`
  return row?.taken ?? null
}

/** Withdraws a request that no process has taken; false when it is taken or gone. */
export const withdraw = async (q: Queries, subscriptionId: string, id: string): Promise<boolean> => {
  const deleted = await q`
    DELETE FROM webhooks.trials WHERE endpoint_id = ${subscriptionId} AND id = ${id} AND claimed_at IS NULL`
  return deleted.count === 1
}

/** Deletes the request of a subscription, taken or not. */
export const removeOf = (q: Queries, subscriptionId: string) =>
  q`DELETE FROM webhooks.trials WHERE endpoint_id = ${subscriptionId}`
