/** The SQL of trial deliveries, and of what deleted subscriptions leave behind. */
import { type EventType, type Mode, type SubscriptionStatus } from '@hub/domain'
import type { Queries } from '@hub/store'

/** A request older than this has nobody left who waits for it: below what command-api waits for a claim. */
const CLAIM_WITHIN_SECONDS = 5

/** A trial that this process has taken, and the subscription as it is now. */
export interface TrialRow {
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

/** Takes the oldest trials that nobody has taken. Each is taken once, whoever asks at the same time. */
export const claimTrials = async (q: Queries, limit: number): Promise<ReadonlyArray<TrialRow>> => q<
  TrialRow[]
>`
  UPDATE webhooks.trials t SET claimed_at = now()
    FROM webhooks.endpoints e
   WHERE t.endpoint_id = e.id AND e.deleted_at IS NULL AND t.endpoint_id IN (
         SELECT endpoint_id FROM webhooks.trials
          WHERE claimed_at IS NULL AND requested_at > now() - make_interval(secs => ${CLAIM_WITHIN_SECONDS})
          ORDER BY requested_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)
  RETURNING t.id AS trial_id, e.id AS endpoint_id, e.mode, e.url, e.event_types, e.status, e.created_at, e.disabled_at,
            e.disabled_reason, e.consecutive_failures, e.secret, e.previous_secret, e.secret_rotation_ends_at`

/** What a trial leaves in the log. Ids are UUIDs. */
export interface TrialRecord {
  readonly trialId: string
  readonly endpoint: string
  readonly eventBatch: string
  readonly event: string
  readonly responseCode: number | null
  readonly durationMs: number
  /** `null`: it succeeded. */
  readonly reason: string | null
  readonly startedAt: number
}

/** Records the attempt and forgets the trial, in one transaction. One whose subscription was deleted leaves nothing. */
export const recordTrial = async (q: Queries, trial: TrialRecord): Promise<void> => {
  const taken = await q`
    DELETE FROM webhooks.trials WHERE endpoint_id = ${trial.endpoint} AND id = ${trial.trialId}`
  const alive = await q`
    SELECT 1 FROM webhooks.endpoints WHERE id = ${trial.endpoint} AND deleted_at IS NULL FOR KEY SHARE`
  if (taken.count === 0 || alive.length === 0) return
  await q`
    INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
    VALUES (${trial.endpoint}, ${trial.event}, ${trial.eventBatch}, 0)`
  await q`
    INSERT INTO webhooks.attempts ${q({
      id: trial.trialId,
      endpoint_id: trial.endpoint,
      batch_id: trial.eventBatch,
      attempt: 1,
      status: trial.reason === null ? 'succeeded' : 'failed',
      response_code: trial.responseCode,
      duration_ms: trial.durationMs,
      reason: trial.reason,
      trial: true,
      created_at: new Date(trial.startedAt),
      next_attempt_at: null,
    })}`
}

/** Lets another process, or this one a little later, take a trial that could not be made here. */
export const releaseTrial = (q: Queries, trialId: string) =>
  q`UPDATE webhooks.trials SET claimed_at = NULL WHERE id = ${trialId}`

/** Rows of a table in one step: some tens of milliseconds. */
const CLEARED_AT_ONCE = 2000

/**
 * Whatever might still have been written for a deleted subscription by a process that had not read of its deletion has been
 * written by then: the retry window is over.
 */
const CLEARED_AFTER_DAYS = 2

/**
 * Deletes some of what deleted subscriptions have left: batches, which events they had, attempts. Answers how many rows; after
 * fewer than `CLEARED_AT_ONCE` of each there is nothing left for now. The subscription itself stays, as a name without content.
 */
export const clearDeleted = async (q: Queries): Promise<number> => {
  const deleted = await q<{ id: string }[]>`
    SELECT id FROM webhooks.endpoints WHERE deleted_at IS NOT NULL AND cleared_at IS NULL ORDER BY id LIMIT 1000
      FOR UPDATE SKIP LOCKED`
  if (deleted.length === 0) return 0
  const ids = deleted.map((row) => row.id)
  const events = await q<{ batch_id: string }[]>`
    DELETE FROM webhooks.batch_events WHERE (endpoint_id, event_id) IN (
      SELECT endpoint_id, event_id FROM webhooks.batch_events WHERE endpoint_id = ANY(${ids}::uuid[])
       LIMIT ${CLEARED_AT_ONCE})
    RETURNING batch_id`
  await q`
    DELETE FROM webhooks.batches WHERE id = ANY(${[...new Set(events.map((row) => row.batch_id))]}::uuid[])`
  const attempts = await q`
    DELETE FROM webhooks.attempts WHERE (endpoint_id, id) IN (
      SELECT endpoint_id, id FROM webhooks.attempts WHERE endpoint_id = ANY(${ids}::uuid[]) LIMIT ${CLEARED_AT_ONCE})`
  const cleared = events.length + attempts.count
  if (cleared === 0) {
    await q`
      UPDATE webhooks.endpoints SET cleared_at = now()
       WHERE id = ANY(${ids}::uuid[]) AND deleted_at < now() - make_interval(days => ${CLEARED_AFTER_DAYS})`
  }
  return cleared
}
