/** When a failing subscription is disabled. Source: specification, Webhook endpoint states. */

export const SUBSCRIPTION_STATUSES = ['enabled', 'disabled_by_failures'] as const
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number]

/** Both must be reached: a burst of failures in a minute is a deployment, and one failure an hour ago is nothing. */
export const DISABLE_AFTER_FAILURES = 20
export const DISABLE_AFTER_MS = 3_600_000

/** The run of failures of a subscription. `firstFailureAt` is that of the run, milliseconds since the epoch. */
export interface SubscriptionHealth {
  readonly status: SubscriptionStatus
  readonly consecutiveFailures: number
  readonly firstFailureAt: number | null
}
export const healthy: SubscriptionHealth = { status: 'enabled', consecutiveFailures: 0, firstFailureAt: null }

/** How an attempt ended, and when. Trial deliveries are none. */
export interface AttemptOutcome {
  readonly succeeded: boolean
  readonly at: number
}

/**
 * What follows, besides storing `health`. `disable`: stop delivering, keep collecting, and tell the account's other subscriptions
 * (`webhook.endpoint_disabled`). `releaseBacklog`: send what else is undelivered at once, in event order.
 */
export type HealthAction = 'none' | 'disable' | 'releaseBacklog'

export interface HealthDecision {
  readonly health: SubscriptionHealth
  readonly action: HealthAction
}

/**
 * Judges an attempt. One that was still under way when its subscription was disabled changes nothing: only enabling by hand does.
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

/** Enables by hand; the run begins anew. An enabled subscription stays as it is. */
export const enable = (health: SubscriptionHealth): HealthDecision =>
  health.status === 'enabled' ? { health, action: 'none' } : { health: healthy, action: 'releaseBacklog' }
