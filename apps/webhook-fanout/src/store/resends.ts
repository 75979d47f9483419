/**
 * `webhooks.resends`: requests to send a batch again. command-api and hubctl insert a row; the
 * fan-out takes it and deletes it when the attempt is in the delivery log. Ids are UUIDs.
 */
import type { Mode } from '@hub/domain'
import { type Queries, WebhooksEndpoints } from '@hub/store'
import { TAKE_WITHIN_SECONDS, turnIn } from './test-deliveries.ts'

/** A resend that was just taken, with the current row of its subscription. */
export interface TakenResendRow extends WebhooksEndpoints.SubscriptionRow, WebhooksEndpoints.SecretColumns {
  readonly resend_id: string
  readonly batch_id: string
  readonly resend_of: string
  readonly attempt: number
  readonly account: string
  readonly mode: Mode
}

/** Takes requests, each once, even by concurrent calls. Accounts take turns, the oldest first. */
export const takeResends = async (q: Queries, limit: number): Promise<ReadonlyArray<TakenResendRow>> => q<
  TakenResendRow[]
>`
  UPDATE webhooks.resends r SET claimed_at = now()
    FROM webhooks.endpoints e
   WHERE r.endpoint_id = e.id AND e.deleted_at IS NULL AND r.id IN (
         SELECT w.id FROM webhooks.resends w JOIN webhooks.endpoints we ON we.id = w.endpoint_id
          WHERE w.claimed_at IS NULL AND w.requested_at > now() - make_interval(secs => ${TAKE_WITHIN_SECONDS})
          ORDER BY ${turnIn(q, 'webhooks.resends')}, w.requested_at LIMIT ${limit} FOR UPDATE OF w SKIP LOCKED)
  RETURNING r.id AS resend_id, r.batch_id, r.resend_of, r.attempt, e.account, e.mode,
            ${WebhooksEndpoints.secretColumns(q)}, ${WebhooksEndpoints.columns(q)}`

/** False: the row is gone. */
export const deleteResend = async (q: Queries, id: string): Promise<boolean> =>
  (await q`DELETE FROM webhooks.resends WHERE id = ${id}`).count > 0

/** Lets a process take it again. */
export const releaseResend = (q: Queries, id: string) =>
  q`UPDATE webhooks.resends SET claimed_at = NULL WHERE id = ${id}`
