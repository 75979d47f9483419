/**
 * `webhooks.trials`: requested test deliveries, at most one for each subscription. command-api
 * inserts a row; the fan-out takes it and deletes it when the attempt is in the delivery log.
 */
import type { EventType, Mode, SubscriptionStatus } from '@hub/domain'
import type { Queries } from '@hub/store'

/** Nobody waits for an older request: command-api waits less long until a process takes it. */
const TAKE_WITHIN_SECONDS = 5

/** A test delivery that was just taken, with the current row of its subscription. */
export interface TakenRow {
  readonly trial_id: string
  readonly endpoint_id: string
  readonly mode: Mode
  readonly url: string
  readonly event_types: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly created_at: Date
  readonly disabled_at: Date | null
  readonly disabled_reason: string | null
  readonly consecutive_failures: number
  readonly secret: Buffer
  readonly previous_secret: Buffer | null
  readonly secret_rotation_ends_at: Date | null
}

/** Takes the oldest requests, each once, even by concurrent calls. */
export const takeTestDeliveries = async (q: Queries, limit: number): Promise<ReadonlyArray<TakenRow>> => q<
  TakenRow[]
>`
  UPDATE webhooks.trials t SET claimed_at = now()
    FROM webhooks.endpoints e
   WHERE t.endpoint_id = e.id AND e.deleted_at IS NULL AND t.endpoint_id IN (
         SELECT endpoint_id FROM webhooks.trials
          WHERE claimed_at IS NULL AND requested_at > now() - make_interval(secs => ${TAKE_WITHIN_SECONDS})
          ORDER BY requested_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)
  RETURNING t.id AS trial_id, e.id AS endpoint_id, e.mode, e.url, e.event_types, e.status, e.created_at, e.disabled_at,
            e.disabled_reason, e.consecutive_failures, e.secret, e.previous_secret, e.secret_rotation_ends_at`

/** False: the row is gone. */
export const deleteTestDelivery = async (q: Queries, endpoint: string, id: string): Promise<boolean> =>
  (await q`DELETE FROM webhooks.trials WHERE endpoint_id = ${endpoint} AND id = ${id}`).count > 0

/** Lets a process take it again. */
export const releaseTestDelivery = (q: Queries, id: string) =>
  q`UPDATE webhooks.trials SET claimed_at = NULL WHERE id = ${id}`
