/**
 * Test deliveries: an event of type `webhook.test` is sent to a subscription at once. It changes
 * neither the endpoint health nor the event journal. Source: SUB-22, SUB-23;
 * docs/decisions/webhooks.md#deliveries-on-demand.
 */
import { randomBytes } from 'node:crypto'
import { NEW_ID_RANDOM_BYTES, newUuid } from '@hub/domain'
import {
  Sql,
  storageCrashPoint,
  type StorageError,
  type WebhooksAttempts,
  WebhooksEndpoints,
  WebhooksTrials,
} from '@hub/store'
import { Clock, Data, Effect } from 'effect'
import { awaitOnDemand, type NotDelivered } from './on-demand.ts'

/**
 * Nothing is sent.
 *
 * - `subscription_unknown`: the subscription does not exist.
 * - `too_many`: a test delivery of the subscription is in progress, or the most deliveries on demand
 *   of the account. Retry after a second.
 */
export class TestDeliveryRefused extends Data.TaggedError('TestDeliveryRefused')<{
  readonly reason: 'subscription_unknown' | 'too_many'
}> {}

const atRequested = storageCrashPoint(
  'command-api.test-delivery-requested',
  (outcome: 'requested' | TestDeliveryRefused['reason']) => outcome === 'requested',
)

/** Makes a test delivery to a subscription (UUID), and returns its attempt when it is recorded. */
export const deliverTest = Effect.fn('deliverTest')(function* (
  subscriptionId: string,
): Effect.fn.Return<WebhooksAttempts.Attempt, TestDeliveryRefused | NotDelivered | StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const id = newUuid(now, randomBytes(NEW_ID_RANDOM_BYTES))
  const outcome = yield* sql
    .transaction(
      async (q): Promise<'requested' | TestDeliveryRefused['reason']> => {
        const owner = await WebhooksEndpoints.readOwner(q, subscriptionId)
        if (owner === null || !(await WebhooksEndpoints.exists(q, subscriptionId)))
          return 'subscription_unknown'
        const requested = await WebhooksTrials.request(q, { account: owner.account, subscriptionId, id })
        return requested ? 'requested' : 'too_many'
      },
      { deadline: '1200 millis' },
    )
    .pipe(atRequested)
  if (outcome !== 'requested') return yield* new TestDeliveryRefused({ reason: outcome })
  return yield* awaitOnDemand({
    subscriptionId,
    id,
    requestedAt: now,
    isTaken: (q) => WebhooksTrials.isTaken(q, subscriptionId, id),
    withdraw: (q) => WebhooksTrials.withdraw(q, subscriptionId, id),
  })
}, Effect.uninterruptible)
