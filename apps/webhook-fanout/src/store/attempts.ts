/** `webhooks.attempts`: the delivery log, with attempts and expiries. Owner: webhook-fanout. */
import { randomBytes } from 'node:crypto'
import { NEW_ID_RANDOM_BYTES, newUuid } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import type { Outcome } from '../subscriptions/outcome.ts'
import type { DeliveryOnDemand, OnDemandResult } from './store.port.ts'
import { isoText } from './times.ts'

export interface NewAttempt {
  readonly outcome: Outcome
  /** Number of the attempt, from 1; that of the last attempt for an expiry. */
  readonly attempt: number
  readonly nextAttemptAt: number | null
}

/** Ids of attempts (UUIDs). Random bytes are drawn for all of them at once, which is cheaper. */
const attemptIds = (attempts: ReadonlyArray<NewAttempt>): ReadonlyArray<string> => {
  const random = randomBytes(NEW_ID_RANDOM_BYTES * attempts.length)
  return attempts.map(({ outcome }, index) =>
    newUuid(
      outcome.startedAt,
      random.subarray(index * NEW_ID_RANDOM_BYTES, (index + 1) * NEW_ID_RANDOM_BYTES),
    ),
  )
}

export const insertAttempts = async (q: Queries, attempts: ReadonlyArray<NewAttempt>): Promise<void> => {
  if (attempts.length === 0) return
  const outcomes = attempts.map(({ outcome }) => outcome)
  await q`
    INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, reason,
      created_at, next_attempt_at, redelivery)
    SELECT * FROM unnest(
      ${sqlArray(attemptIds(attempts))}::uuid[],
      ${sqlArray(outcomes.map(({ subscriptionId }) => subscriptionId))}::uuid[],
      ${sqlArray(outcomes.map(({ batch }) => batch.uuid))}::uuid[],
      ${sqlArray(attempts.map(({ attempt }) => attempt))}::integer[],
      ${sqlArray(outcomes.map(({ reason }) => (reason === null ? 'succeeded' : 'failed')))}::text[],
      ${sqlArray(outcomes.map(({ responseCode }) => responseCode))}::integer[],
      ${sqlArray(outcomes.map(({ durationMs }) => durationMs))}::integer[],
      ${sqlArray(outcomes.map(({ reason }) => reason))}::text[],
      ${sqlArray(outcomes.map(({ startedAt }) => isoText(startedAt)))}::timestamptz[],
      ${sqlArray(attempts.map(({ nextAttemptAt }) => isoText(nextAttemptAt)))}::timestamptz[],
      ${sqlArray(outcomes.map(({ batch }) => batch.redelivery))}::uuid[])`
}

/** Writes a delivery on demand. `batch`: UUID of its event batch. */
export const insertOnDemandAttempt = (
  q: Queries,
  { subscriptionId, id, kind, startedAt }: DeliveryOnDemand,
  batch: string,
  { durationMs, reason, responseCode }: OnDemandResult,
) => q`
  INSERT INTO webhooks.attempts ${q({
    id,
    endpoint_id: subscriptionId,
    batch_id: batch,
    attempt: kind.name === 'resend' ? kind.attempt : 1,
    status: reason === null ? 'succeeded' : 'failed',
    response_code: responseCode,
    duration_ms: durationMs,
    reason,
    trial: kind.name === 'test',
    resend_of: kind.name === 'resend' ? kind.of : null,
    created_at: new Date(startedAt),
    next_attempt_at: null,
  })}`
