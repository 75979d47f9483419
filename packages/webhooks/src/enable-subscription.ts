/**
 * Enables a subscription that was disabled by failures. Source: SUB-20, SUB-21, DEL-27.
 *
 * The caller inserts a `SubscriptionChanged` into the outbox in the same transaction; the fan-out
 * then delivers the backlog.
 */
import { enable, type Mode, subscriptionEnabled, type SubscriptionStatus } from '@hub/domain'
import { CommandEventInbox, type Queries, WebhooksEndpoints } from '@hub/store'

/** `unchanged`: it was enabled before. `unknown`: there is none with this id. */
export type EnableResult = 'enabled' | 'unchanged' | 'unknown'

interface EnabledRow extends WebhooksEndpoints.SubscriptionRow {
  readonly account: string
  readonly mode: Mode
  readonly last_enabled_at: Date
}

/** Enables a subscription (UUID) in the caller's transaction, and inserts the event that informs the account. */
export const enableSubscription = async (q: Queries, id: string): Promise<EnableResult> => {
  const [found] = await q<
    { status: SubscriptionStatus; consecutive_failures: number; first_failure_at: Date | null }[]
  >`
    SELECT status, consecutive_failures, first_failure_at FROM webhooks.endpoints
     WHERE id = ${id} AND deleted_at IS NULL FOR NO KEY UPDATE`
  if (found === undefined) return 'unknown'
  const { action, health } = enable({
    status: found.status,
    consecutiveFailures: found.consecutive_failures,
    firstFailureAt: found.first_failure_at?.getTime() ?? null,
  })
  if (action !== 'releaseBacklog') return 'unchanged'
  const [row] = await q<EnabledRow[]>`
    UPDATE webhooks.endpoints e
       SET status = ${health.status}, consecutive_failures = ${health.consecutiveFailures}, first_failure_at = NULL,
           last_disabled_at = disabled_at, last_enabled_at = clock_timestamp(),
           disabled_at = NULL, disabled_reason = NULL, backlog_released_at = clock_timestamp()
     WHERE id = ${id}
    RETURNING ${WebhooksEndpoints.columns(q)}, e.account, e.mode, e.last_enabled_at`
  if (row === undefined) throw new Error('the locked subscription is gone')
  const event = subscriptionEnabled(WebhooksEndpoints.toView(row), row.last_enabled_at.getTime())
  await CommandEventInbox.insert(q, row, event)
  return 'enabled'
}
