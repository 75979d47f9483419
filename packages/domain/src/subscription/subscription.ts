/** The public view. Source: SUB-2. */
import { eventIdOf, type EventType, type PublicEvent } from '../event/event.ts'
import { toTimestamp } from '../values/timestamp.ts'
import type { SubscriptionStatus } from './health.ts'

/** What clients see of the client certificate of a subscription. */
export interface ClientCertificateView {
  /** SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it. */
  readonly fingerprint: string
  /** Milliseconds since the epoch. */
  readonly notAfter: number
}

/** The client certificate of a subscription in an answer. */
export interface ClientCertificateObject {
  readonly fingerprint_sha256: string
  readonly not_after: string
}

/** `null`: the subscription has none. */
export const clientCertificateObject = (view: ClientCertificateView | null): ClientCertificateObject | null =>
  view === null ? null : { fingerprint_sha256: view.fingerprint, not_after: toTimestamp(view.notAfter) }

/** The data behind the view. Times are milliseconds since the epoch. */
export interface SubscriptionView {
  /** `we_…` */
  readonly id: string
  readonly url: string
  /** The client's own note; `null`: none. */
  readonly description: string | null
  /** Empty: all types. */
  readonly eventTypes: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly createdAt: number
  readonly disabledAt: number | null
  /** The last failure. */
  readonly disabledReason: string | null
  readonly consecutiveFailures: number
  /** The time until which an earlier secret signs too. `null` outside a rotation. */
  readonly rotationEndsAt: number | null
  /** The names of its static headers, in the order sent. */
  readonly headerNames: ReadonlyArray<string>
  readonly clientCertificate: ClientCertificateView | null
}

interface SubscriptionObject {
  readonly id: string
  readonly object: 'webhook_endpoint'
  readonly url: string
  readonly description: string | null
  readonly event_types: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly created_at: string
  readonly disabled_at: string | null
  readonly disabled_reason: string | null
  readonly consecutive_failures: number
  readonly secret_rotation_ends_at: string | null
  readonly header_names: ReadonlyArray<string>
  readonly client_certificate: ClientCertificateObject | null
}

const timestampOf = (at: number | null): string | null => (at === null ? null : toTimestamp(at))

/** Makes the view. It shows a rotation only until its end, so it depends on `now`. */
export const subscriptionObject = (view: SubscriptionView, now: number): SubscriptionObject => ({
  id: view.id,
  object: 'webhook_endpoint',
  url: view.url,
  description: view.description,
  event_types: view.eventTypes,
  status: view.status,
  created_at: toTimestamp(view.createdAt),
  disabled_at: timestampOf(view.disabledAt),
  disabled_reason: view.disabledReason,
  consecutive_failures: view.consecutiveFailures,
  secret_rotation_ends_at:
    view.rotationEndsAt !== null && view.rotationEndsAt > now ? toTimestamp(view.rotationEndsAt) : null,
  header_names: view.headerNames,
  client_certificate: clientCertificateObject(view.clientCertificate),
})

/**
 * Makes the event for a subscription that was disabled at `disabledAt`. A subscription can be
 * disabled again later, so the event id depends on the time too. Source: DEL-20.
 */
export const subscriptionDisabled = (
  view: SubscriptionView,
  disabledAt: number,
): PublicEvent<SubscriptionObject, 'webhook.endpoint_disabled'> => ({
  id: eventIdOf(`${view.id} ${toTimestamp(disabledAt)}`, 'webhook.endpoint_disabled'),
  type: 'webhook.endpoint_disabled',
  object: subscriptionObject(view, disabledAt),
})

/** Makes the event for a subscription that was enabled again at `enabledAt`. Its id depends on the time too. Source: DEL-27. */
export const subscriptionEnabled = (
  view: SubscriptionView,
  enabledAt: number,
): PublicEvent<SubscriptionObject, 'webhook.endpoint_enabled'> => ({
  id: eventIdOf(`${view.id} ${toTimestamp(enabledAt)}`, 'webhook.endpoint_enabled'),
  type: 'webhook.endpoint_enabled',
  object: subscriptionObject(view, enabledAt),
})

/** `attempt` is the id of the test delivery in the delivery log (`whd_…`). */
export const testDeliveryEvent = (
  attempt: string,
  view: SubscriptionView,
  now: number,
): PublicEvent<SubscriptionObject, 'webhook.test'> => ({
  id: eventIdOf(attempt, 'webhook.test'),
  type: 'webhook.test',
  object: subscriptionObject(view, now),
})
