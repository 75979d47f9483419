/**
 * The delivery rules of a subscription: retry schedule, failure streak, release of the backlog, and
 * retry window. Source: DEL-15 to DEL-23.
 */
import { applyAttempt, type FailureStreak, type HealthAction } from './health.ts'
import { nextAttemptAt, RETRY_WINDOW_MS, retryWindowExpired } from './retry.ts'

/**
 * The most attempts of a batch before its scheduled time. A success of another batch releases the
 * backlog, so without this limit a batch that the receiver always refuses would be attempted after
 * every success.
 */
const EARLY_ATTEMPTS = 10

/** The parameters of the rules. Tests use shorter times. */
export interface DeliveryRules {
  readonly retryWindowMs: number
  readonly nextAttemptAt: typeof nextAttemptAt
  readonly earlyAttempts: number
}
export const DELIVERY_RULES: DeliveryRules = {
  retryWindowMs: RETRY_WINDOW_MS,
  nextAttemptAt,
  earlyAttempts: EARLY_ATTEMPTS,
}

/** The part of a subscription that deliveries change. Times are milliseconds since the epoch. */
export interface EndpointHealth extends FailureStreak {
  /** Batches scheduled before this time are due at once. `null`: no backlog is released. */
  readonly backlogReleasedAt: number | null
}

/** The part of a webhook batch that deliveries change. */
export interface BatchDeliveryState {
  readonly status: 'pending' | 'succeeded' | 'failed'
  readonly attempts: number
  /** The attempts before the scheduled time, after a release of the backlog. */
  readonly earlyAttempts: number
  readonly queuedAt: number
  /**
   * A release after this time makes the batch due early. Normally the time at which `dueAt` was
   * set.
   */
  readonly scheduledAt: number
  /** The next attempt or the end of the retry window. `null` when not pending. */
  readonly dueAt: number | null
  /** A redelivery. Its attempts do not count for the endpoint's health. */
  readonly redelivery: boolean
}

/** Returns what is due for a batch at `at`: an attempt, its expiry, or nothing. */
export const dueAction = (
  health: EndpointHealth,
  batch: BatchDeliveryState,
  at: number,
  rules: DeliveryRules,
): 'attempt' | 'expiry' | 'nothing' => {
  if (batch.status !== 'pending' || batch.dueAt === null) return 'nothing'
  const expired = retryWindowExpired(batch.queuedAt, at, rules.retryWindowMs)
  if (health.status !== 'enabled') return expired ? 'expiry' : 'nothing'
  const released =
    health.backlogReleasedAt !== null &&
    batch.scheduledAt < health.backlogReleasedAt &&
    batch.earlyAttempts < rules.earlyAttempts
  if (batch.dueAt > at && !released) return 'nothing'
  return expired ? 'expiry' : 'attempt'
}

/** The outcome of an attempt or an expiry. */
export interface DeliveryOutcome {
  /** `expiry`: there was no attempt, because the retry window had ended. */
  readonly kind: 'attempt' | 'expiry'
  readonly succeeded: boolean
  readonly startedAt: number
  readonly endedAt: number
  /** Determines the jitter of the next attempt, in [0, 1). */
  readonly random: number
}

/** A batch after an outcome. */
export interface BatchDecision {
  readonly batch: BatchDeliveryState
  /** The next attempt, unless this outcome disables the subscription. */
  readonly nextAttemptAt: number | null
}

/**
 * Applies an outcome to its batch. Without a next attempt it stays pending until its window ends: a
 * release may still send it.
 */
export const applyOutcomeToBatch = (
  batch: BatchDeliveryState,
  { endedAt, kind, random, startedAt, succeeded }: DeliveryOutcome,
  rules: DeliveryRules,
): BatchDecision => {
  if (kind === 'expiry') {
    return { batch: { ...batch, status: 'failed', scheduledAt: endedAt, dueAt: null }, nextAttemptAt: null }
  }
  const tried = {
    ...batch,
    attempts: batch.attempts + 1,
    earlyAttempts: batch.earlyAttempts + (startedAt < (batch.dueAt ?? startedAt) ? 1 : 0),
    scheduledAt: endedAt,
  }
  if (succeeded) return { batch: { ...tried, status: 'succeeded', dueAt: null }, nextAttemptAt: null }
  const next = rules.nextAttemptAt({
    attempt: tried.attempts,
    queuedAt: batch.queuedAt,
    failedAt: endedAt,
    random,
  })
  return { batch: { ...tried, dueAt: next ?? batch.queuedAt + rules.retryWindowMs }, nextAttemptAt: next }
}

interface HealthDecision {
  readonly health: EndpointHealth
  readonly action: HealthAction
  /** The next attempt of the batch, as the delivery log shows it. */
  readonly nextAttemptAt: number | null
}

/**
 * Applies an outcome to the endpoint health, after its batch. Expiries and redeliveries do not
 * change the health. A long enough failure streak disables the subscription, and then there is no
 * next attempt.
 */
export const applyOutcomeToHealth = (
  before: EndpointHealth,
  { endedAt, kind, succeeded }: DeliveryOutcome,
  { batch, nextAttemptAt }: BatchDecision,
): HealthDecision => {
  const counts = kind === 'attempt' && !batch.redelivery
  const { action, health } = counts
    ? applyAttempt(before, { succeeded, at: endedAt })
    : { health: before, action: 'none' as const }
  const { consecutiveFailures, firstFailureAt, status } = health
  // A new failure ends a release: the remaining batches return to their own schedules.
  const keptRelease = counts && !succeeded ? null : before.backlogReleasedAt
  const backlogReleasedAt = action === 'releaseBacklog' ? endedAt : keptRelease
  return {
    health: { status, consecutiveFailures, firstFailureAt, backlogReleasedAt },
    action,
    nextAttemptAt: status === 'enabled' ? nextAttemptAt : null,
  }
}

/** Resets the early attempts, so that enabling attempts every batch again. */
export const resetEarlyAttempts = (batch: BatchDeliveryState): BatchDeliveryState =>
  batch.status === 'pending' ? { ...batch, earlyAttempts: 0 } : batch
