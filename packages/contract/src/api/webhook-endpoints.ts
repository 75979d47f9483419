/** Operations of webhook subscriptions. Source: specification, Webhook subscription endpoints. */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from 'effect/http-api'
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
import {
  ANY_POST,
  ANYWHERE,
  ApiKey,
  failures,
  idempotencyHeaders,
  idParam,
  limitParam,
  LIST_CODES,
  operation,
  READ_CODES,
  startingAfterParam,
} from './operation.ts'

const CREATE_ENDPOINT_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'webhook_url_invalid',
  'webhook_endpoint_limit_reached',
] as const

const createWebhookEndpoint = HttpApiEndpoint.post('create', '/v1/webhook_endpoints', {
  headers: idempotencyHeaders,
  payload: WebhookEndpointCreate,
  success: WebhookEndpointWithSecret.pipe(HttpApiSchema.status(201)),
  error: failures(CREATE_ENDPOINT_CODES),
}).annotateMerge(
  operation({
    summary: 'Create a subscription',
    description:
      'Events go to the address as signed JSON arrays. The secret is in this answer only. The address must be https and ' +
      'public, which is checked again at every connection.',
    answer: 'The subscription, with its secret.',
    codes: CREATE_ENDPOINT_CODES,
  }),
)

const listWebhookEndpoints = HttpApiEndpoint.get('list', '/v1/webhook_endpoints', {
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: WebhookEndpointList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List subscriptions',
    description: 'All subscriptions of the account and mode, newest first.',
    answer: 'A page of subscriptions.',
    codes: LIST_CODES,
  }),
)

const readWebhookEndpoint = HttpApiEndpoint.get('read', '/v1/webhook_endpoints/:id', {
  params: idParam('the subscription'),
  success: WebhookEndpoint,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a subscription',
    description: 'The subscription, without its secret.',
    answer: 'The subscription.',
    codes: READ_CODES,
  }),
)

const deleteWebhookEndpoint = HttpApiEndpoint.delete('delete', '/v1/webhook_endpoints/:id', {
  params: idParam('the subscription'),
  success: DeletedWebhookEndpoint,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Delete a subscription',
    description:
      'Its backlog is dropped, attempts under way are broken off, and its log is gone. A second deletion is `not_found`.',
    answer: 'What was deleted.',
    codes: READ_CODES,
  }),
)

/** Errors of a POST to a resource. The body is optional, but a present one must be valid. */
const ACTION_CODES = [...ANYWHERE, ...ANY_POST, 'not_found'] as const

const rotateWebhookSecret = HttpApiEndpoint.post('rotateSecret', '/v1/webhook_endpoints/:id/rotate_secret', {
  params: idParam('the subscription'),
  headers: idempotencyHeaders,
  success: WebhookEndpointWithSecret,
  error: failures(ACTION_CODES),
}).annotateMerge(
  operation({
    summary: 'Rotate the secret',
    description:
      'Makes a new secret, which is in this answer only. Until `secret_rotation_ends_at`, a day from now, the previous one signs as well: ' +
      '`Hub-Signature` has two `v1`, and a match of either is enough. A second rotation within the day keeps the newest two.',
    answer: 'The subscription, with its new secret.',
    codes: ACTION_CODES,
  }),
)

const testWebhookEndpoint = HttpApiEndpoint.post('test', '/v1/webhook_endpoints/:id/test', {
  params: idParam('the subscription'),
  headers: idempotencyHeaders,
  success: WebhookDelivery,
  error: failures(ACTION_CODES),
}).annotateMerge(
  operation({
    summary: 'Make a trial delivery',
    description:
      'Delivers one `webhook.test` event at once, whatever the status and the types of the subscription, and answers with the attempt, ' +
      'a failed one too. It does not count as a failure, is not tried again, and is not listed with the events. One subscription has one trial ' +
      'at a time; meanwhile another is `rate_limited`.',
    answer: 'The attempt, which is in the log with `trial: true`.',
    codes: ACTION_CODES,
  }),
)

const enableWebhookEndpoint = HttpApiEndpoint.post('enable', '/v1/webhook_endpoints/:id/enable', {
  params: idParam('the subscription'),
  headers: idempotencyHeaders,
  success: WebhookEndpoint,
  error: failures(ACTION_CODES),
}).annotateMerge(
  operation({
    summary: 'Enable a subscription',
    description:
      'Ends `disabled_by_failures`: the count of failures begins anew, and what has accumulated within 24 hours is delivered at once, the ' +
      'oldest first, in the same batches with the same ids. An enabled subscription stays as it is.',
    answer: 'The subscription.',
    codes: ACTION_CODES,
  }),
)

const listWebhookDeliveries = HttpApiEndpoint.get('deliveries', '/v1/webhook_endpoints/:id/deliveries', {
  params: idParam('the subscription'),
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: WebhookDeliveryList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List delivery attempts',
    description:
      'Every attempt to deliver a batch of events to the subscription, newest first, and a line for each batch that was given up because ' +
      'its 24 hours were over.',
    answer: 'A page of attempts.',
    codes: LIST_CODES,
  }),
)

export const WebhookEndpointsGroup = HttpApiGroup.make('webhook_endpoints')
  .add(
    createWebhookEndpoint,
    listWebhookEndpoints,
    readWebhookEndpoint,
    deleteWebhookEndpoint,
    rotateWebhookSecret,
    testWebhookEndpoint,
    enableWebhookEndpoint,
    listWebhookDeliveries,
  )
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Webhook endpoints', description: 'Where events go.' }))
