/** Webhooks: address policy, client, enabling of subscriptions, and redelivery. */
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
export { enableEndpoint, type EnableResult } from './enable-endpoint.ts'
export type { FailureReason } from './failure-reason.ts'
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
} from './address-policy.ts'
export {
  readRedelivery,
  type Redelivery,
  RedeliveryRefused,
  type RedeliveryRequest,
  requestRedelivery,
} from './redelivery.ts'
export { type UrlRule, UrlRefused, WEBHOOK_URL_MAX_LENGTH } from './url.ts'
