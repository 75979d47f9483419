/** When a failing subscription is disabled. Source: DEL-19. */

export const SUBSCRIPTION_STATUSES = ['enabled', 'disabled_by_failures'] as const
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number]

/**
 * Both limits must be reached. A burst of failures within a minute is typical of a deployment, and
 * a single failure an hour ago means nothing.
 */
export const DISABLE_AFTER_FAILURES = 20
export const DISABLE_AFTER_MS = 3_600_000

/** The failures since the last success. `firstFailureAt` is milliseconds since the epoch. */
export interface FailureStreak {
  readonly status: SubscriptionStatus
  readonly consecutiveFailures: number
  readonly firstFailureAt: number | null
}
export const healthy: FailureStreak = { status: 'enabled', consecutiveFailures: 0, firstFailureAt: null }

/**
 * The action of the caller, in addition to storing `health`. `disable`: stop deliveries, continue
 * to collect events, and emit `webhook.endpoint_disabled` to the account's other subscriptions.
 * `releaseBacklog`: deliver the other undelivered batches at once, in event order.
 */
export type HealthAction = 'none' | 'disable' | 'releaseBacklog'

interface StreakDecision {
  readonly health: FailureStreak
  readonly action: HealthAction
}

/**
 * Applies the outcome of an attempt, which is not a test delivery. An attempt that ends after its
 * subscription was disabled changes nothing: only `enable` ends that state.
 */
export const applyAttempt = (
  health: FailureStreak,
  outcome: { readonly succeeded: boolean; readonly at: number },
): StreakDecision => {
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
export const enable = (health: FailureStreak): StreakDecision =>
  health.status === 'enabled' ? { health, action: 'none' } : { health: healthy, action: 'releaseBacklog' }
