/**
 * Resends: the batch of an attempt is sent again at once, with the same id and events. The attempt
 * does not change the endpoint health or the schedule of the batch. Source: SUB-24.
 */
import { randomBytes } from 'node:crypto'
import { NEW_ID_RANDOM_BYTES, newUuid } from '@hub/domain'
import {
  type Queries,
  ReadEvents,
  Sql,
  type StorageError,
  WebhooksAttempts,
  WebhooksEndpoints,
  WebhooksResends,
} from '@hub/store'
import { Clock, Data, Effect } from 'effect'
import { awaitOnDemand, NotDelivered } from './on-demand.ts'

/**
 * Nothing is sent.
 *
 * - `attempt_unknown`: the subscription or the attempt does not exist.
 * - `test_delivery`: the event of a test delivery is not stored.
 * - `events_expired`: the events are older than the event journal.
 * - `too_many`: the account has too many deliveries on demand. Retry after a second.
 */
export class ResendRefused extends Data.TaggedError('ResendRefused')<{
  readonly reason: 'attempt_unknown' | 'test_delivery' | 'events_expired' | 'too_many'
}> {}

interface ResendRequest {
  /** UUID of the subscription. */
  readonly subscriptionId: string
  /** UUID of one of its attempts, or of the log entry of a batch that was given up. */
  readonly attempt: string
}

const requestResend = async (
  q: Queries,
  { attempt, subscriptionId }: ResendRequest,
  id: string,
): Promise<'requested' | ResendRefused['reason']> => {
  const owner = await WebhooksEndpoints.readOwner(q, subscriptionId)
  if (owner === null || !(await WebhooksEndpoints.exists(q, subscriptionId))) return 'attempt_unknown'
  const found = await WebhooksAttempts.read(q, subscriptionId, attempt)
  if (found === null) return 'attempt_unknown'
  if (found.trial) return 'test_delivery'
  const bodies = await ReadEvents.readBodies(q, owner, found.event_ids)
  if (bodies.length === 0 || bodies.length < found.event_ids.length) return 'events_expired'
  if (!(await WebhooksResends.hasPlace(q, owner.account, null))) return 'too_many'
  await WebhooksResends.insert(q, {
    id,
    subscriptionId,
    batch: found.batch_id,
    resendOf: found.id,
    attempt: found.attempt,
  })
  return 'requested'
}

/** Sends the batch of an attempt again, and returns the new attempt when it is recorded. */
export const resendDelivery = Effect.fn('resendDelivery')(function* (
  request: ResendRequest,
): Effect.fn.Return<WebhooksAttempts.Attempt, ResendRefused | NotDelivered | StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const id = newUuid(now, randomBytes(NEW_ID_RANDOM_BYTES))
  const outcome = yield* sql.transaction((q) => requestResend(q, request, id), { deadline: '1200 millis' })
  if (outcome !== 'requested') return yield* new ResendRefused({ reason: outcome })
  return yield* awaitOnDemand({
    subscriptionId: request.subscriptionId,
    id,
    requestedAt: now,
    isTaken: (q) => WebhooksResends.isTaken(q, id),
    withdraw: (q) => WebhooksResends.withdraw(q, id),
  })
}, Effect.uninterruptible)
