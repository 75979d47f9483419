/**
 * `webhooks.trials`: requested test deliveries, at most one for each subscription. command-api
 * inserts a row; the fan-out takes it and deletes it when the attempt is in the delivery log.
 */
import type { Mode } from '@hub/domain'
import { type Queries, WebhooksEndpoints, WebhooksResends } from '@hub/store'

/** Nobody waits for an older request: command-api waits less long until a process takes it. */
export const TAKE_WITHIN_SECONDS = 5

/** A test delivery that was just taken, with the current row of its subscription. */
export interface TakenRow extends WebhooksEndpoints.SubscriptionRow, WebhooksEndpoints.SecretColumns {
  readonly test_delivery_id: string
  readonly mode: Mode
}

/**
 * How many other requests of its account go before a request of `table`: those that are taken, and
 * older ones. So accounts take turns (docs/decisions/fairness.md).
 */
export const turnIn = (q: Queries, table: 'webhooks.trials' | 'webhooks.resends') => q`
  (SELECT count(*) FROM ${q(table)} o JOIN webhooks.endpoints oe ON oe.id = o.endpoint_id
    WHERE oe.account = we.account AND o.requested_at > now() - make_interval(secs => ${WebhooksResends.ABANDONED_SECONDS})
      AND (o.claimed_at IS NOT NULL OR o.requested_at < w.requested_at))`

/** Whether a request for a test delivery or a resend waits. It is asked often, and is rarely true. */
export const hasOnDemand = async (q: Queries): Promise<boolean> =>
  (
    await q`SELECT FROM webhooks.trials WHERE claimed_at IS NULL UNION ALL
            SELECT FROM webhooks.resends WHERE claimed_at IS NULL LIMIT 1`
  ).count > 0

/** Takes requests, each once, even by concurrent calls. Accounts take turns, the oldest first. */
export const takeTestDeliveries = async (q: Queries, limit: number): Promise<ReadonlyArray<TakenRow>> => q<
  TakenRow[]
>`
  UPDATE webhooks.trials t SET claimed_at = now()
    FROM webhooks.endpoints e
   WHERE t.endpoint_id = e.id AND e.deleted_at IS NULL AND t.endpoint_id IN (
         SELECT w.endpoint_id FROM webhooks.trials w JOIN webhooks.endpoints we ON we.id = w.endpoint_id
          WHERE w.claimed_at IS NULL AND w.requested_at > now() - make_interval(secs => ${TAKE_WITHIN_SECONDS})
          ORDER BY ${turnIn(q, 'webhooks.trials')}, w.requested_at LIMIT ${limit} FOR UPDATE OF w SKIP LOCKED)
  RETURNING t.id AS test_delivery_id, e.mode, ${WebhooksEndpoints.secretColumns(q)}, ${WebhooksEndpoints.columns(q)}`

/** False: the row is gone. */
export const deleteTestDelivery = async (q: Queries, subscriptionId: string, id: string): Promise<boolean> =>
  (await q`DELETE FROM webhooks.trials WHERE endpoint_id = ${subscriptionId} AND id = ${id}`).count > 0

/** Lets a process take it again. */
export const releaseTestDelivery = (q: Queries, id: string) =>
  q`UPDATE webhooks.trials SET claimed_at = NULL WHERE id = ${id}`
