/** A webhook subscription as reads and events show it. Source: contract, Webhook subscription. */
import { eventIdOf, type EventType, type PublicEvent } from '../event/event.ts'
import { toTimestamp } from '../vocabulary.ts'
import type { SubscriptionStatus } from './health.ts'

/** After a rotation the previous secret signs as well, for so long, ms. Source: specification, Other limits. */
export const SECRET_ROTATION_MS = 24 * 3_600_000

/** What can be told of a subscription. Moments are milliseconds since the epoch. */
export interface SubscriptionView {
  /** `we_…` */
  readonly id: string
  readonly url: string
  /** Empty: all types. */
  readonly eventTypes: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly createdAt: number
  readonly disabledAt: number | null
  /** What the last failure was. */
  readonly disabledReason: string | null
  readonly consecutiveFailures: number
  /** Until when the previous secret signs as well; `null` outside a rotation. */
  readonly rotationEndsAt: number | null
}

export interface SubscriptionObject {
  readonly id: string
  readonly object: 'webhook_endpoint'
  readonly url: string
  readonly event_types: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly created_at: string
  readonly disabled_at: string | null
  readonly disabled_reason: string | null
  readonly consecutive_failures: number
  readonly secret_rotation_ends_at: string | null
}

const timestampOf = (at: number | null): string | null => (at === null ? null : toTimestamp(at))

/** The subscription at `now`, which decides whether a rotation is still under way. */
export const subscriptionObject = (view: SubscriptionView, now: number): SubscriptionObject => ({
  id: view.id,
  object: 'webhook_endpoint',
  url: view.url,
  event_types: view.eventTypes,
  status: view.status,
  created_at: toTimestamp(view.createdAt),
  disabled_at: timestampOf(view.disabledAt),
  disabled_reason: view.disabledReason,
  consecutive_failures: view.consecutiveFailures,
  secret_rotation_ends_at:
    view.rotationEndsAt !== null && view.rotationEndsAt > now ? toTimestamp(view.rotationEndsAt) : null,
})

/**
 * Tells that a subscription was disabled at `disabledAt`. It may be disabled again some day, so its id is of both. Source:
 * specification, Webhook endpoint states.
 */
export const subscriptionDisabled = (
  view: SubscriptionView,
  disabledAt: number,
): PublicEvent<SubscriptionObject, 'webhook.endpoint_disabled'> => ({
  id: eventIdOf(`${view.id} ${toTimestamp(disabledAt)}`, 'webhook.endpoint_disabled'),
  type: 'webhook.endpoint_disabled',
  object: subscriptionObject(view, disabledAt),
})

/** What a trial delivers. `attempt`: the `whd_…` that it will be in the log. */
export const testDeliveryEvent = (
  attempt: string,
  view: SubscriptionView,
  now: number,
): PublicEvent<SubscriptionObject, 'webhook.test'> => ({
  id: eventIdOf(attempt, 'webhook.test'),
  type: 'webhook.test',
  object: subscriptionObject(view, now),
})
