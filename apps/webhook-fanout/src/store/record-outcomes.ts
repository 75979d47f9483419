/**
 * The SQL that judges and records outcomes. The rules are the domain's (`applyOutcome`); here they are read from rows and written back.
 */
import {
  type BatchDeliveryState,
  type DeliveryOutcome,
  type DeliveryDecision,
  encodeId,
  type EventType,
  applyOutcome,
  type Mode,
  newEndpointHealth,
  subscriptionDisabled,
  type EndpointHealth,
  type SubscriptionStatus,
} from '@hub/domain'
import { type Queries, sqlArray, uuidOf } from '@hub/store'
import { attemptIds } from './attempts.ts'
import type { Settings } from '../config.ts'
import type { Outcome, Ownership, Recorded, Standing } from './store.port.ts'
import type { PendingBatch } from '../subscriptions/subscription.ts'

const time = (date: Date | null): number | null => date?.getTime() ?? null
const date = (at: number | null): Date | null => (at === null ? null : new Date(at))
const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

/** Takes the partition's row for the length of the transaction; false when it is another's. */
export const holds = async (q: Queries, { epoch, partition }: Ownership): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM webhooks.positions WHERE partition = ${partition} AND epoch = ${epoch} FOR SHARE`
  return rows.length === 1
}

/** What the domain judges, and what is told when it says so. */
interface StandingRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly url: string
  readonly event_types: ReadonlyArray<EventType>
  readonly created_at: Date
  readonly secret_rotation_ends_at: Date | null
  readonly status: SubscriptionStatus
  readonly consecutive_failures: number
  readonly first_failure_at: Date | null
  readonly backlog_released_at: Date | null
}

/** Leaves `webhook.endpoint_disabled` for the journal, in the transaction that disables. */
const tellDisabled = async (
  q: Queries,
  row: StandingRow,
  disabled: { readonly at: number; readonly reason: string; readonly consecutiveFailures: number },
): Promise<void> => {
  const event = subscriptionDisabled(
    {
      id: encodeId('we', row.id),
      url: row.url,
      eventTypes: row.event_types,
      status: 'disabled_by_failures',
      createdAt: row.created_at.getTime(),
      disabledAt: disabled.at,
      disabledReason: disabled.reason,
      consecutiveFailures: disabled.consecutiveFailures,
      rotationEndsAt: time(row.secret_rotation_ends_at),
    },
    disabled.at,
  )
  await q`
    INSERT INTO command.event_inbox (id, account, mode, type, object)
    VALUES (${uuidOf('evt', event.id)}, ${row.account}, ${row.mode}, ${event.type}, ${JSON.stringify(event.object)}::text::json)
    ON CONFLICT (id) DO NOTHING`
}

/** As the deliverer knows it. How often it was early is counted where it is stored. */
const batchStanding = (batch: PendingBatch): BatchDeliveryState => ({
  status: 'pending',
  attempts: batch.attempts,
  earlyAttempts: 0,
  queuedAt: batch.queuedAt,
  scheduledAt: batch.queuedAt,
  dueAt: batch.nextAttemptAt,
  redelivery: batch.redelivery !== null,
})

/** An outcome in the terms of the domain, with what it means for its batch. */
interface Judged {
  readonly outcome: Outcome
  readonly ended: DeliveryOutcome
  readonly before: BatchDeliveryState
  readonly batch: BatchDeliveryState
}

const judgedOf = (settings: Settings, outcome: Outcome): Judged => {
  const { endedAt, kind, reason, startedAt } = outcome
  const ended = { kind, succeeded: reason === null, startedAt, endedAt, random: Math.random() }
  const before = batchStanding(outcome.batch)
  return { outcome, ended, before, batch: applyOutcome(newEndpointHealth, before, ended, settings).batch }
}

/**
 * Moves the batches on, each only from the number of attempts that its outcome knew; those that have ended go. Answers those that moved.
 */
const moveBatches = async (q: Queries, judged: ReadonlyArray<Judged>): Promise<ReadonlySet<string>> => {
  const ended = judged.filter(({ batch }) => batch.dueAt === null)
  const waiting = judged.filter(({ batch }) => batch.dueAt !== null)
  const moved = new Set<string>()
  if (ended.length > 0) {
    const rows = await q<{ id: string }[]>`
      DELETE FROM webhooks.batches b
      USING unnest(
        ${sqlArray(ended.map(({ outcome }) => outcome.batch.uuid))}::uuid[],
        ${sqlArray(ended.map(({ before }) => before.attempts))}::integer[]
      ) AS p (id, known)
      WHERE b.id = p.id AND b.attempts = p.known
      RETURNING b.id`
    for (const { id } of rows) moved.add(id)
  }
  if (waiting.length > 0) {
    const rows = await q<{ id: string }[]>`
      UPDATE webhooks.batches b SET
        attempts = p.attempts,
        early_attempts = b.early_attempts + p.early,
        scheduled_at = p.scheduled_at,
        next_attempt_at = p.due_at
      FROM unnest(
        ${sqlArray(waiting.map(({ outcome }) => outcome.batch.uuid))}::uuid[],
        ${sqlArray(waiting.map(({ before }) => before.attempts))}::integer[],
        ${sqlArray(waiting.map(({ batch }) => batch.attempts))}::integer[],
        ${sqlArray(waiting.map(({ batch }) => batch.earlyAttempts))}::integer[],
        ${sqlArray(waiting.map(({ batch }) => iso(batch.scheduledAt)))}::timestamptz[],
        ${sqlArray(waiting.map(({ batch }) => iso(batch.dueAt)))}::timestamptz[]
      ) AS p (id, known, attempts, early, scheduled_at, due_at)
      WHERE b.id = p.id AND b.attempts = p.known
      RETURNING b.id`
    for (const { id } of rows) moved.add(id)
  }
  return moved
}

/** Stores how a subscription stands now, and, when it has just been disabled, tells so. */
const moveSubscription = async (
  q: Queries,
  row: StandingRow,
  after: EndpointHealth,
  disabled: Judged | null,
): Promise<void> => {
  await q`
    UPDATE webhooks.endpoints SET
      status = ${after.status},
      consecutive_failures = ${after.consecutiveFailures},
      first_failure_at = ${date(after.firstFailureAt)},
      backlog_released_at = ${date(after.backlogReleasedAt)}
    WHERE id = ${row.id}`
  if (disabled === null) return
  const { outcome } = disabled
  const reason = outcome.reason ?? 'http_status'
  await q`
    UPDATE webhooks.endpoints SET disabled_at = ${date(outcome.endedAt)}, disabled_reason = ${reason},
           disabled_by_batch = ${outcome.batch.uuid}
    WHERE id = ${row.id}`
  // `resetEarlyAttempts`: enabling sends all of them out once more.
  await q`
    UPDATE webhooks.batches SET early_attempts = 0
    WHERE endpoint_id = ${row.id} AND early_attempts > 0`
  await tellDisabled(q, row, {
    at: outcome.endedAt,
    reason,
    consecutiveFailures: after.consecutiveFailures,
  })
}

/** Judges the outcomes of one subscription, in order, and stores what follows. */
const judgeSubscription = async (
  q: Queries,
  row: StandingRow,
  own: ReadonlyArray<Judged>,
  settings: Settings,
): Promise<{ readonly standing: Standing; readonly verdicts: ReadonlyArray<DeliveryDecision> }> => {
  const before: EndpointHealth = {
    status: row.status,
    consecutiveFailures: row.consecutive_failures,
    firstFailureAt: time(row.first_failure_at),
    backlogReleasedAt: time(row.backlog_released_at),
  }
  let after = before
  let action: Standing['action'] = 'none'
  let disabled: Judged | null = null
  const verdicts = own.map((judged) => {
    const verdict = applyOutcome(after, judged.before, judged.ended, settings)
    after = verdict.subscription
    if (verdict.action !== 'none') action = verdict.action
    if (verdict.action === 'disable') disabled = judged
    return verdict
  })
  const changed =
    after.status !== before.status ||
    after.consecutiveFailures !== before.consecutiveFailures ||
    after.backlogReleasedAt !== before.backlogReleasedAt
  if (changed) await moveSubscription(q, row, after, disabled)
  const { backlogReleasedAt, consecutiveFailures, status } = after
  return { verdicts, standing: { status, consecutiveFailures, backlogReleasedAt, action } }
}

/** Records outcomes in the order in which they ended, whatever they were. `null`: the partition is another's. */
export const recordOutcomes = async (
  q: Queries,
  owner: Ownership,
  outcomes: ReadonlyArray<Outcome>,
  settings: Settings,
): Promise<Recorded | null> => {
  if (!(await holds(q, owner))) return null
  const endpointIds = [...new Set(outcomes.map((outcome) => outcome.endpoint))].sort()
  const endpoints = await q<StandingRow[]>`
    SELECT id, account, mode, url, event_types, created_at, secret_rotation_ends_at, status, consecutive_failures,
           first_failure_at, backlog_released_at
    FROM webhooks.endpoints WHERE id = ANY(${endpointIds}::uuid[]) AND deleted_at IS NULL
    ORDER BY id FOR NO KEY UPDATE`
  const alive = new Set(endpoints.map((row) => row.id))
  const judged = outcomes.flatMap((outcome) =>
    alive.has(outcome.endpoint) ? [judgedOf(settings, outcome)] : [],
  )
  const moved = await moveBatches(q, judged)
  const counted = judged.filter(({ outcome }) => moved.has(outcome.batch.uuid))
  const standings = new Map<string, Standing>()
  const lines: Array<{ readonly judged: Judged; readonly nextAttemptAt: number | null }> = []
  for (const row of endpoints) {
    const own = counted.filter(({ outcome }) => outcome.endpoint === row.id)
    const { standing, verdicts } = await judgeSubscription(q, row, own, settings)
    standings.set(row.id, standing)
    lines.push(
      ...own.map((one, index) => ({ judged: one, nextAttemptAt: verdicts[index]?.nextAttemptAt ?? null })),
    )
  }
  if (lines.length > 0) {
    const ids = attemptIds(lines.map((line) => line.judged.outcome))
    const outcomesOf = lines.map((line) => line.judged.outcome)
    await q`
      INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, reason,
        created_at, next_attempt_at, redelivery)
      SELECT * FROM unnest(
        ${sqlArray(ids)}::uuid[],
        ${sqlArray(outcomesOf.map(({ endpoint }) => endpoint))}::uuid[],
        ${sqlArray(outcomesOf.map(({ batch }) => batch.uuid))}::uuid[],
        ${sqlArray(lines.map(({ judged: { batch } }) => batch.attempts))}::integer[],
        ${sqlArray(outcomesOf.map(({ reason }) => (reason === null ? 'succeeded' : 'failed')))}::text[],
        ${sqlArray(outcomesOf.map(({ responseCode }) => responseCode))}::integer[],
        ${sqlArray(outcomesOf.map(({ durationMs }) => durationMs))}::integer[],
        ${sqlArray(outcomesOf.map(({ reason }) => reason))}::text[],
        ${sqlArray(outcomesOf.map(({ startedAt }) => iso(startedAt)))}::timestamptz[],
        ${sqlArray(lines.map(({ nextAttemptAt }) => iso(nextAttemptAt)))}::timestamptz[],
        ${sqlArray(outcomesOf.map(({ batch }) => batch.redelivery))}::uuid[])`
  }
  return {
    standings,
    nextDue: new Map(
      counted.flatMap(({ batch, outcome }) =>
        batch.dueAt === null ? [] : [[outcome.batch.uuid, batch.dueAt] as const],
      ),
    ),
  }
}
