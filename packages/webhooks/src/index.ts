/** What both ends of webhooks need: where they may be sent, and a connection that cannot go anywhere else. */
export { isPublicAddress } from './addresses.ts'
export {
  AttemptNotMade,
  CaFileUnusable,
  type Delivery,
  type DeliveryResult,
  makeWebhookClient,
  RECEIVER_DEADLINE_MS,
  WebhookClient,
  type WebhookClientShape,
} from './client.ts'
export { enableEndpoint, type Enabling } from './enabling.ts'
export type { FailureReason } from './failure.ts'
export {
  allowedHostsConfig,
  AddressNotPublic,
  AddressPolicy,
  type AddressPolicyOptions,
  type AddressPolicyShape,
  HostUnresolvable,
  makeAddressPolicy,
  type ResolvedAddress,
  type ResolveName,
} from './policy.ts'
export {
  readRedelivery,
  type Redelivery,
  RedeliveryRefused,
  type RedeliveryRequest,
  requestRedelivery,
} from './redelivery.ts'
export { type UrlRule, UrlRefused, WEBHOOK_URL_MAX_LENGTH } from './url.ts'
