/**
 * Deliveries on demand: test deliveries (`POST /v1/webhook_endpoints/{id}/test`) and resends (`POST
 * …/deliveries/{id}/resend`). This process writes a request row and polls for the result. Source: SUB-22 to
 * SUB-27; docs/decisions/webhooks.md#deliveries-on-demand.
 */
import { apiError, type WebhookDelivery } from '@hub/contract'
import { Sql } from '@hub/store'
import {
  deliverTest,
  type NotDelivered,
  resendDelivery,
  type ResendRefused,
  type TestDeliveryRefused,
} from '@hub/webhooks'
import { Effect } from 'effect'
import { deliveryBody } from './deliveries.ts'

const UNAVAILABLE = {
  retryAfter: 5,
  reason: 'no process of the fan-out made and recorded the delivery in time',
}
const BUSY =
  'A test delivery of this subscription is under way, or four test deliveries and resends of the account.'
const TOO_MANY = 'Four test deliveries and resends of the account are under way.'
const NOT_KEPT = 'The events of a test delivery are not kept. Make another test delivery.'
const EXPIRED = 'The events of this batch are no longer stored.'

const notDelivered = ({ reason }: NotDelivered) =>
  reason === 'deleted' ? apiError('not_found') : apiError('internal_error', UNAVAILABLE)

const testRefused = ({ reason }: TestDeliveryRefused) =>
  reason === 'subscription_unknown'
    ? apiError('not_found')
    : apiError('rate_limited', { message: BUSY, retryAfter: 1 })

const resendRefused = ({ reason }: ResendRefused) => {
  switch (reason) {
    case 'attempt_unknown':
      return apiError('not_found')
    case 'test_delivery':
      return apiError('invalid_parameter', { message: NOT_KEPT })
    case 'events_expired':
      return apiError('invalid_parameter', { message: EXPIRED })
    case 'too_many':
      return apiError('rate_limited', { message: TOO_MANY, retryAfter: 1 })
  }
}

/**
 * Makes the two functions, which wait for the attempt of a subscription of the caller. They fail
 * with `rate_limited` while too many are in progress, with `not_found` when the subscription is
 * deleted meanwhile, and with `internal_error` when no fan-out process delivers in time.
 */
export const makeDeliveriesOnDemand = Effect.gen(function* () {
  const sql = yield* Sql

  return {
    /** A test delivery for a subscription (UUID). */
    test: (subscriptionId: string) =>
      deliverTest(subscriptionId).pipe(
        Effect.provideService(Sql, sql),
        Effect.map((made): WebhookDelivery => deliveryBody(made)),
        Effect.catchTags({
          TestDeliveryRefused: (error) => Effect.fail(testRefused(error)),
          NotDelivered: (error) => Effect.fail(notDelivered(error)),
        }),
      ),

    /** A resend of an attempt (UUID) of a subscription (UUID). */
    resend: (subscriptionId: string, attempt: string) =>
      resendDelivery({ subscriptionId, attempt }).pipe(
        Effect.provideService(Sql, sql),
        Effect.map((made): WebhookDelivery => deliveryBody(made)),
        Effect.catchTags({
          ResendRefused: (error) => Effect.fail(resendRefused(error)),
          NotDelivered: (error) => Effect.fail(notDelivered(error)),
        }),
      ),
  }
})
