/**
 * The transaction that records outcomes: it applies the rules of the domain to each of them, in
 * order, and stores batches, endpoint health and delivery log.
 */
import {
  applyOutcomeToBatch,
  applyOutcomeToHealth,
  type BatchDecision,
  type BatchDeliveryState,
  type DeliveryOutcome,
  type EndpointHealth,
} from '@hub/domain'
import type { Queries } from '@hub/store'
import type { Settings } from '../config.ts'
import type { Outcome } from '../subscriptions/outcome.ts'
import type { PendingBatch } from '../subscriptions/pending-batch.ts'
import { insertAttempts, type NewAttempt } from './attempts.ts'
import { applyChanges, resetEarlyAttempts } from './batches.ts'
import { healthOf, type HealthRow, lockHealth, recordDisabled, updateHealth } from './subscriptions.ts'
import { lockOwnership } from './positions.ts'
import type { RecordedHealth } from '../subscriptions/subscription.ts'
import type { Ownership, RecordedOutcomes } from './store.port.ts'
import { toMs } from './times.ts'

/** An outcome, also in the terms of the domain, with its batch before and after it. */
interface AppliedOutcome {
  readonly outcome: Outcome
  readonly deliveryOutcome: DeliveryOutcome
  readonly before: BatchDeliveryState
  readonly decision: BatchDecision
}

/** The batch as the deliverer knows it. PostgreSQL counts the earlier early attempts. */
const stateOf = (batch: PendingBatch): BatchDeliveryState => ({
  status: 'pending',
  attempts: batch.attempts,
  earlyAttempts: 0,
  queuedAt: batch.queuedAt,
  scheduledAt: batch.queuedAt,
  dueAt: batch.dueAt,
  redelivery: batch.redelivery !== null,
})

/** Applies an outcome to its batch, which does not depend on the endpoint health. */
const toApplied = (outcome: Outcome, settings: Settings): AppliedOutcome => {
  const { batch, endedAt, kind, reason, startedAt } = outcome
  const deliveryOutcome = { kind, succeeded: reason === null, startedAt, endedAt, random: Math.random() }
  const before = stateOf(batch)
  return {
    outcome,
    deliveryOutcome,
    before,
    decision: applyOutcomeToBatch(before, deliveryOutcome, settings),
  }
}

/** Applies the outcomes of one subscription to its health and stores it. */
const recordHealth = async (
  q: Queries,
  row: HealthRow,
  applied: ReadonlyArray<AppliedOutcome>,
): Promise<{ readonly health: RecordedHealth; readonly attempts: ReadonlyArray<NewAttempt> }> => {
  const before = healthOf(row)
  let health: EndpointHealth = before
  let action: RecordedHealth['action'] = 'none'
  let disabledBy: Outcome | null = null
  const attempts: Array<NewAttempt> = []
  for (const { decision, deliveryOutcome, outcome } of applied) {
    const after = applyOutcomeToHealth(health, deliveryOutcome, decision)
    health = after.health
    if (after.action !== 'none') action = after.action
    if (after.action === 'disable') disabledBy = outcome
    attempts.push({ outcome, attempt: decision.batch.attempts, nextAttemptAt: after.nextAttemptAt })
  }
  const { backlogReleasedAt, consecutiveFailures, status } = health
  const changed =
    status !== before.status ||
    consecutiveFailures !== before.consecutiveFailures ||
    backlogReleasedAt !== before.backlogReleasedAt
  if (changed) await updateHealth(q, row.id, health)
  if (disabledBy !== null) {
    const { batch, endedAt, reason } = disabledBy
    await resetEarlyAttempts(q, row.id)
    await recordDisabled(q, row, {
      at: endedAt,
      reason: reason ?? 'http_status',
      batch: batch.uuid,
      consecutiveFailures,
    })
  }
  const disabledAt = disabledBy?.endedAt ?? toMs(row.disabled_at)
  return { attempts, health: { status, consecutiveFailures, backlogReleasedAt, action, disabledAt } }
}

/** Records outcomes, oldest first. `null`: another process owns the partition. */
export const recordOutcomes = async (
  q: Queries,
  owner: Ownership,
  outcomes: ReadonlyArray<Outcome>,
  settings: Settings,
): Promise<RecordedOutcomes | null> => {
  if (!(await lockOwnership(q, owner))) return null
  const rows = await lockHealth(
    q,
    [...new Set(outcomes.map(({ subscriptionId }) => subscriptionId))].toSorted(),
  )
  const undeleted = new Set(rows.map(({ id }) => id))
  const all = outcomes
    .filter(({ subscriptionId }) => undeleted.has(subscriptionId))
    .map((outcome) => toApplied(outcome, settings))
  const changed = await applyChanges(
    q,
    all.map(({ before, decision, outcome }) => ({ uuid: outcome.batch.uuid, before, after: decision.batch })),
  )
  // The other outcomes were recorded before: their batches have had a later attempt, or are gone.
  const counted = all.filter(({ outcome }) => changed.has(outcome.batch.uuid))
  const bySubscription = Map.groupBy(counted, ({ outcome }) => outcome.subscriptionId)
  const health = new Map<string, RecordedHealth>()
  const attempts: Array<NewAttempt> = []
  for (const row of rows) {
    const recorded = await recordHealth(q, row, bySubscription.get(row.id) ?? [])
    health.set(row.id, recorded.health)
    attempts.push(...recorded.attempts)
  }
  await insertAttempts(q, attempts)
  const nextDue = new Map<string, number>()
  for (const { decision, outcome } of counted) {
    if (decision.batch.dueAt !== null) nextDue.set(outcome.batch.uuid, decision.batch.dueAt)
  }
  return { health, nextDue }
}
