/** When a failing subscription is disabled. Source: specification §Webhook endpoint states. */

export const SUBSCRIPTION_STATUSES = ['enabled', 'disabled_by_failures'] as const
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number]

/**
 * Both limits must be reached. A burst of failures within a minute is typical of a deployment, and
 * a single failure an hour ago means nothing.
 */
export const DISABLE_AFTER_FAILURES = 20
export const DISABLE_AFTER_MS = 3_600_000

/** The failure streak. `firstFailureAt` is milliseconds since the epoch. */
export interface SubscriptionHealth {
  readonly status: SubscriptionStatus
  readonly consecutiveFailures: number
  readonly firstFailureAt: number | null
}
export const healthy: SubscriptionHealth = { status: 'enabled', consecutiveFailures: 0, firstFailureAt: null }

/** The result of an attempt. Test deliveries are not attempts. */
interface AttemptOutcome {
  readonly succeeded: boolean
  readonly at: number
}

/**
 * The action of the caller, in addition to storing `health`. `disable`: stop deliveries, continue
 * to collect events, and emit `webhook.endpoint_disabled` to the account's other subscriptions.
 * `releaseBacklog`: deliver the other undelivered batches at once, in event order.
 */
export type HealthAction = 'none' | 'disable' | 'releaseBacklog'

interface HealthDecision {
  readonly health: SubscriptionHealth
  readonly action: HealthAction
}

/**
 * Applies the result of an attempt. An attempt that ends after its subscription was disabled
 * changes nothing: only `enable` ends that state.
 */
export const applyAttempt = (health: SubscriptionHealth, outcome: AttemptOutcome): HealthDecision => {
  if (health.status === 'disabled_by_failures') return { health, action: 'none' }
  if (outcome.succeeded) {
    return { health: healthy, action: health.consecutiveFailures > 0 ? 'releaseBacklog' : 'none' }
  }
  const consecutiveFailures = health.consecutiveFailures + 1
  const firstFailureAt = health.firstFailureAt ?? outcome.at
  const disable =
    consecutiveFailures >= DISABLE_AFTER_FAILURES && outcome.at - firstFailureAt >= DISABLE_AFTER_MS
  return {
    health: { status: disable ? 'disabled_by_failures' : 'enabled', consecutiveFailures, firstFailureAt },
    action: disable ? 'disable' : 'none',
  }
}

/** Enables a subscription and resets its failure streak. */
export const enable = (health: SubscriptionHealth): HealthDecision =>
  health.status === 'enabled' ? { health, action: 'none' } : { health: healthy, action: 'releaseBacklog' }
