/**
 * `webhooks.resends`: requests to send a webhook batch again. command-api and hubctl insert a row;
 * the fan-out takes it and deletes it when it records the attempt. All ids here are UUIDs.
 *
 * Test deliveries (`webhooks.trials`) and resends together are the deliveries on demand. Both use
 * the slots for them in the fan-out, so their number for an account is limited.
 */
import type { Queries } from '../../sql.ts'

/**
 * Deliveries on demand of an account at a time. A fan-out process makes 32, so the receivers of one
 * account cannot occupy all slots, even if none of them answers.
 */
const MOST_ON_DEMAND = 4

/** After this time no client waits for a delivery on demand. Its process may have crashed. */
export const ABANDONED_SECONDS = 20

/**
 * Whether the account has a place for another delivery on demand, apart from one of the subscription
 * `except`, which the caller replaces. An advisory lock serializes the requests of an account until
 * the transaction ends, so that the count holds.
 */
export const hasPlace = async (q: Queries, account: string, except: string | null): Promise<boolean> => {
  await q`SELECT pg_advisory_xact_lock(hashtextextended(${`webhooks on demand ${account}`}, 0))`
  const [row] = await q<{ count: number }[]>`
    SELECT count(*)::integer AS count
      FROM (SELECT endpoint_id, requested_at FROM webhooks.trials WHERE endpoint_id IS DISTINCT FROM ${except}
             UNION ALL SELECT endpoint_id, requested_at FROM webhooks.resends) AS o
      JOIN webhooks.endpoints e ON e.id = o.endpoint_id
     WHERE e.account = ${account} AND o.requested_at > now() - make_interval(secs => ${ABANDONED_SECONDS})`
  return (row?.count ?? 0) < MOST_ON_DEMAND
}

interface NewResend {
  /** The id of the attempt that it becomes. */
  readonly id: string
  readonly subscriptionId: string
  readonly batch: string
  /** The attempt that the request names, and its number. */
  readonly resendOf: string
  readonly attempt: number
}

/** Inserts a request, and deletes abandoned ones. */
export const insert = async (q: Queries, { attempt, batch, subscriptionId, id, resendOf }: NewResend) => {
  await q`
    DELETE FROM webhooks.resends WHERE requested_at < now() - make_interval(secs => ${ABANDONED_SECONDS})`
  await q`
    INSERT INTO webhooks.resends (id, endpoint_id, batch_id, resend_of, attempt)
    VALUES (${id}, ${subscriptionId}, ${batch}, ${resendOf}, ${attempt})`
}

/** Whether the fan-out has taken the request; `null` when the row is gone. */
export const isTaken = async (q: Queries, id: string): Promise<boolean | null> => {
  const [row] = await q<{ taken: boolean }[]>`
    SELECT claimed_at IS NOT NULL AS taken FROM webhooks.resends WHERE id = ${id}`
  return row?.taken ?? null
}

/** Withdraws a request that no process has taken; false when it is taken or gone. */
export const withdraw = async (q: Queries, id: string): Promise<boolean> => {
  const deleted = await q`DELETE FROM webhooks.resends WHERE id = ${id} AND claimed_at IS NULL`
  return deleted.count === 1
}

/** Deletes the requests of a subscription, taken or not. */
export const removeOf = (q: Queries, subscriptionId: string) =>
  q`DELETE FROM webhooks.resends WHERE endpoint_id = ${subscriptionId}`
