/** Webhook subscriptions and deliveries of all accounts. */
export { enable, get, list, WebhookEndpoint } from './subscriptions.ts'
export { redeliver, redeliverEvent, redelivery } from './redeliveries.ts'
export { test } from './deliveries.ts'
