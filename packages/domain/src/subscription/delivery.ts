/**
 * What becomes of a subscription and its batches: one place for the rules of schedule, run of failures, release of a backlog and
 * window. Pure. Source: specification, Delivery of events (5 to 9) and Webhook endpoint states; contract, Webhook subscription.
 */
import { enable, type HealthAction, applyAttempt, type SubscriptionHealth } from './health.ts'
import { nextAttemptAt, RETRY_WINDOW_MS } from './retry.ts'

/**
 * How often a batch may be attempted before its time because another one succeeded. A batch that its receiver always
 * refuses would otherwise be tried again with every success of the others.
 */
export const EARLY_ATTEMPTS = 10

/** The numbers behind the rules; shorter ones are for tests. */
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

/** A subscription as far as deliveries change it. Moments are milliseconds since the epoch. */
export interface EndpointHealth extends SubscriptionHealth {
  /** Batches scheduled before this are due at once; `null` while nothing is released. */
  readonly backlogReleasedAt: number | null
}
export const newEndpointHealth: EndpointHealth = {
  status: 'enabled',
  consecutiveFailures: 0,
  firstFailureAt: null,
  backlogReleasedAt: null,
}

/** A batch as far as deliveries change it. */
export interface BatchDeliveryState {
  readonly status: 'pending' | 'succeeded' | 'failed'
  readonly attempts: number
  /** How many of them came before their time because of a release. */
  readonly earlyAttempts: number
  readonly queuedAt: number
  /** When `dueAt` was decided. */
  readonly scheduledAt: number
  /** While pending: the next attempt, or the end of the window when there is no further one. */
  readonly dueAt: number | null
  /** It repeats a period on the operator's request: its attempts do not count for the subscription. */
  readonly redelivery: boolean
}

/** A batch that is formed is due at once. */
export const newBatchDelivery = (at: number, redelivery = false): BatchDeliveryState => ({
  status: 'pending',
  attempts: 0,
  earlyAttempts: 0,
  queuedAt: at,
  scheduledAt: at,
  dueAt: at,
  redelivery,
})

/** The window has closed at `at`: the batch is not delivered any more. */
export const windowClosed = (
  batch: Pick<BatchDeliveryState, 'queuedAt'>,
  at: number,
  rules: DeliveryRules,
): boolean => at >= batch.queuedAt + rules.retryWindowMs

/** What there is to do for a batch at `at`: an attempt, its last line, or nothing yet. */
export const dueAction = (
  subscription: EndpointHealth,
  batch: BatchDeliveryState,
  at: number,
  rules: DeliveryRules,
): 'attempt' | 'expiry' | 'nothing' => {
  if (batch.status !== 'pending' || batch.dueAt === null) return 'nothing'
  const closed = windowClosed(batch, at, rules)
  if (subscription.status !== 'enabled') return closed ? 'expiry' : 'nothing'
  const released =
    subscription.backlogReleasedAt !== null &&
    batch.scheduledAt < subscription.backlogReleasedAt &&
    batch.earlyAttempts < rules.earlyAttempts
  if (batch.dueAt > at && !released) return 'nothing'
  return closed ? 'expiry' : 'attempt'
}

/** How something ended that was done for a batch. */
export interface DeliveryOutcome {
  /** `expiry`: there was no attempt, because the window had closed. */
  readonly kind: 'attempt' | 'expiry'
  readonly succeeded: boolean
  readonly startedAt: number
  readonly endedAt: number
  /** For the jitter of the next attempt, in [0, 1). */
  readonly random: number
}

export interface DeliveryDecision {
  readonly subscription: EndpointHealth
  readonly batch: BatchDeliveryState
  readonly action: HealthAction
  /** What the delivery log says of the next attempt. */
  readonly nextAttemptAt: number | null
}

/** The batch alone. Without a next attempt it stays until its window closes: a release may still send it out. */
const judgeBatch = (
  batch: BatchDeliveryState,
  { endedAt, kind, random, startedAt, succeeded }: DeliveryOutcome,
  rules: DeliveryRules,
): { readonly batch: BatchDeliveryState; readonly nextAttemptAt: number | null } => {
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

/**
 * Judges an outcome. The subscription changes with attempts of its ordinary batches only; a run of failures that is long enough
 * disables it, and then nobody knows of a next attempt.
 */
export const applyOutcome = (
  subscription: EndpointHealth,
  batch: BatchDeliveryState,
  outcome: DeliveryOutcome,
  rules: DeliveryRules,
): DeliveryDecision => {
  const judged = judgeBatch(batch, outcome, rules)
  const { backlogReleasedAt } = subscription
  const verdict =
    outcome.kind === 'attempt' && !batch.redelivery
      ? applyAttempt(subscription, { succeeded: outcome.succeeded, at: outcome.endedAt })
      : { health: subscription, action: 'none' as const }
  // A release ends where failures begin again: what is left of it goes back to its own schedule.
  const released =
    verdict.action === 'releaseBacklog'
      ? outcome.endedAt
      : outcome.succeeded || outcome.kind === 'expiry' || batch.redelivery
        ? backlogReleasedAt
        : null
  const { consecutiveFailures, firstFailureAt, status } = verdict.health
  return {
    subscription: { status, consecutiveFailures, firstFailureAt, backlogReleasedAt: released },
    batch: judged.batch,
    action: verdict.action,
    nextAttemptAt: status === 'enabled' ? judged.nextAttemptAt : null,
  }
}

/** Enables by hand: the run begins anew, and everything that waits is due. An enabled one stays as it is. */
export const enableSubscription = (subscription: EndpointHealth, at: number): EndpointHealth => {
  const { action, health } = enable(subscription)
  return action === 'releaseBacklog' ? { ...health, backlogReleasedAt: at } : subscription
}

/**
 * The batches of a disabled subscription forget their early attempts: enabling sends all of them out once more, whatever was
 * tried before.
 */
export const resetEarlyAttempts = (batch: BatchDeliveryState): BatchDeliveryState =>
  batch.status === 'pending' ? { ...batch, earlyAttempts: 0 } : batch
