/** Operations of webhook subscriptions. Source: specification, Webhook subscription endpoints. */
import { HttpApiSchema } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import {
  DeletedWebhookEndpoint,
  WebhookDelivery,
  WebhookDeliveryList,
  WebhookEndpoint,
  WebhookEndpointCreate,
  WebhookEndpointList,
  WebhookEndpointWithSecret,
} from '../schemas/webhook-endpoints.ts'
import { get, idParam, pageQuery, post, remove, resource } from './operation.ts'

const createWebhookEndpoint = post('create', '/v1/webhook_endpoints', {
  summary: 'Create a subscription',
  description:
    'Events go to the address as signed JSON arrays. The secret is in this answer only. The address must be https and ' +
    'public, which is checked again at every connection.',
  answer: 'The subscription, with its secret.',
  codes: ['webhook_url_invalid', 'webhook_endpoint_limit_reached'],
  payload: WebhookEndpointCreate,
  success: WebhookEndpointWithSecret.pipe(HttpApiSchema.status(201)),
})

const listWebhookEndpoints = get('list', '/v1/webhook_endpoints', {
  summary: 'List subscriptions',
  description: 'All subscriptions of the account and mode, newest first.',
  answer: 'A page of subscriptions.',
  codes: ['invalid_parameter', 'not_found'],
  query: pageQuery(LIST_LIMITS),
  success: WebhookEndpointList,
})

const readWebhookEndpoint = get('read', '/v1/webhook_endpoints/:id', {
  summary: 'Read a subscription',
  description: 'The subscription, without its secret.',
  answer: 'The subscription.',
  codes: ['not_found'],
  params: idParam('the subscription'),
  success: WebhookEndpoint,
})

const deleteWebhookEndpoint = remove('delete', '/v1/webhook_endpoints/:id', {
  summary: 'Delete a subscription',
  description:
    'Its backlog is dropped, attempts under way are broken off, and its log is gone. A second deletion is `not_found`.',
  answer: 'What was deleted.',
  codes: ['not_found'],
  params: idParam('the subscription'),
  success: DeletedWebhookEndpoint,
})

const rotateWebhookSecret = post('rotateSecret', '/v1/webhook_endpoints/:id/rotate_secret', {
  summary: 'Rotate the secret',
  description:
    'Makes a new secret, which is in this answer only. Until `secret_rotation_ends_at`, a day from now, the previous one signs as well: ' +
    '`Hub-Signature` has two `v1`, and a match of either is enough. A second rotation within the day keeps the newest two.',
  answer: 'The subscription, with its new secret.',
  codes: ['not_found'],
  params: idParam('the subscription'),
  success: WebhookEndpointWithSecret,
})

const testWebhookEndpoint = post('test', '/v1/webhook_endpoints/:id/test', {
  summary: 'Make a trial delivery',
  description:
    'Delivers one `webhook.test` event at once, whatever the status and the types of the subscription, and answers with the attempt, ' +
    'a failed one too. It does not count as a failure, is not tried again, and is not listed with the events. One subscription has one trial ' +
    'at a time; meanwhile another is `rate_limited`.',
  answer: 'The attempt, which is in the log with `trial: true`.',
  codes: ['not_found'],
  params: idParam('the subscription'),
  success: WebhookDelivery,
})

const enableWebhookEndpoint = post('enable', '/v1/webhook_endpoints/:id/enable', {
  summary: 'Enable a subscription',
  description:
    'Ends `disabled_by_failures`: the count of failures begins anew, and what has accumulated within 24 hours is delivered at once, the ' +
    'oldest first, in the same batches with the same ids. An enabled subscription stays as it is.',
  answer: 'The subscription.',
  codes: ['not_found'],
  params: idParam('the subscription'),
  success: WebhookEndpoint,
})

const listWebhookDeliveries = get('deliveries', '/v1/webhook_endpoints/:id/deliveries', {
  summary: 'List delivery attempts',
  description:
    'Every attempt to deliver a batch of events to the subscription, newest first, and a line for each batch that was given up because ' +
    'its 24 hours were over.',
  answer: 'A page of attempts.',
  codes: ['invalid_parameter', 'not_found'],
  params: idParam('the subscription'),
  query: pageQuery(LIST_LIMITS),
  success: WebhookDeliveryList,
})

export const WebhookEndpointsGroup = resource(
  'webhook_endpoints',
  'Webhook endpoints',
  'Where events go.',
  createWebhookEndpoint,
  listWebhookEndpoints,
  readWebhookEndpoint,
  deleteWebhookEndpoint,
  rotateWebhookSecret,
  testWebhookEndpoint,
  enableWebhookEndpoint,
  listWebhookDeliveries,
)
