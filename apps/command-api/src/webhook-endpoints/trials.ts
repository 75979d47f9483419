/**
 * Statements of `webhooks.trials`, the requested test deliveries, for the app that requests them.
 * The fan-out claims a row and deletes it when it records the attempt. All ids here are UUIDs.
 */
import type { Queries } from '@hub/store'

/** After this time no client waits for the test delivery, so a new request may replace it. */
const ABANDONED_SECONDS = 20

/** Requests a test delivery; false while another one of the endpoint is in progress. */
export const request = async (q: Queries, endpoint: string, id: string): Promise<boolean> => {
  const rows = await q`
    INSERT INTO webhooks.trials AS t (endpoint_id, id) VALUES (${endpoint}, ${id})
    ON CONFLICT (endpoint_id) DO UPDATE SET id = excluded.id, requested_at = now(), claimed_at = NULL
      WHERE t.requested_at < now() - make_interval(secs => ${ABANDONED_SECONDS})
    RETURNING id`
  return rows.length === 1
}

/** Whether the fan-out has claimed the test delivery; `null` when the row is gone. */
export const isClaimed = async (q: Queries, endpoint: string, id: string): Promise<boolean | null> => {
  const [row] = await q<{ claimed: boolean }[]>`
    SELECT claimed_at IS NOT NULL AS claimed FROM webhooks.trials WHERE endpoint_id = ${endpoint} AND id = ${id}`
  return row?.claimed ?? null
}

/** Withdraws a request that nobody has claimed; false when it is claimed or gone. */
export const withdraw = async (q: Queries, endpoint: string, id: string): Promise<boolean> => {
  const deleted = await q`
    DELETE FROM webhooks.trials WHERE endpoint_id = ${endpoint} AND id = ${id} AND claimed_at IS NULL`
  return deleted.count === 1
}

/** Deletes the request of an endpoint, claimed or not. */
export const removeOf = (q: Queries, endpoint: string) =>
  q`DELETE FROM webhooks.trials WHERE endpoint_id = ${endpoint}`
