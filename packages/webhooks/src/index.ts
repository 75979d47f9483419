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
} from './client.ts'
export {
  checkClientCertificate,
  type ClientCertificate,
  ClientCertificateRefused,
} from './client-certificate.ts'
export {
  decryptClientCertificate,
  decryptHeaders,
  encryptClientCertificate,
  encryptHeaders,
} from './stored-credentials.ts'
export { egressProxyConfig } from './egress-proxy.ts'
export { enableSubscription, type EnableResult } from './enable-subscription.ts'
export { FAILURE_REASONS, type FailureReason } from './failure-reason.ts'
export {
  allowedHostsConfig,
  deniedNetworksConfig,
  AddressNotPublic,
  AddressPolicy,
  type AddressPolicyShape,
  HostUnresolvable,
  makeAddressPolicy,
} from './address-policy.ts'
export { awaitOnDemand, NotDelivered } from './on-demand.ts'
export { resendDelivery, ResendRefused } from './resend.ts'
export { deliverTest, TestDeliveryRefused } from './test-delivery.ts'
export {
  EventRedeliveryRefused,
  readRedelivery,
  RedeliveryRefused,
  requestEventRedelivery,
  requestRedelivery,
} from './redelivery.ts'
export { UrlRefused } from './url.ts'
