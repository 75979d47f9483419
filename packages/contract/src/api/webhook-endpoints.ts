/** Operations of webhook subscriptions. Source: docs/contract/subscriptions.md. */
import { HttpApiSchema } from 'effect/http-api'
import { Schema } from 'effect'
import { LIST_LIMITS } from '../limits.ts'
import { TimestampToSend } from '../schemas/common.ts'
import {
  DELIVERY_STATUSES,
  DeletedWebhookEndpoint,
  SECRET_ROTATION_BODY,
  WebhookDelivery,
  WebhookDeliveryList,
  WebhookEndpoint,
  WebhookEndpointCreate,
  WebhookEndpointList,
  WebhookEndpointUpdate,
  WebhookEndpointWithSecret,
} from '../schemas/webhook-endpoints.ts'
import { get, idParam, pageQuery, patch, post, remove, resource } from './operation.ts'

export const WebhookEndpointsGroup = resource(
  'webhook_endpoints',
  'Webhook endpoints',
  'Where events go.',
  post('create', '/v1/webhook_endpoints', {
    scope: 'manage',
    summary: 'Create a subscription',
    description:
      'Events go to the address as signed JSON arrays. The secret is in this answer only. The address must be https and ' +
      'public, which is checked again at every connection. Each request has the `headers` of the subscription, and its ' +
      '`client_certificate` is for receivers that ask for one. A certificate or a key that cannot be used is `invalid_parameter`.',
    answer: 'The subscription, with its secret.',
    codes: ['webhook_url_invalid', 'webhook_endpoint_limit_reached'],
    payload: WebhookEndpointCreate,
    success: WebhookEndpointWithSecret.pipe(HttpApiSchema.status(201)),
  }),
  get('list', '/v1/webhook_endpoints', {
    summary: 'List subscriptions',
    description: 'All subscriptions of the account and mode, newest first.',
    answer: 'A page of subscriptions.',
    codes: ['invalid_parameter', 'not_found'],
    query: pageQuery(LIST_LIMITS),
    success: WebhookEndpointList,
  }),
  get('read', '/v1/webhook_endpoints/:id', {
    summary: 'Read a subscription',
    description: 'The subscription, without its secret.',
    answer: 'The subscription.',
    codes: ['not_found'],
    params: idParam('the subscription'),
    success: WebhookEndpoint,
  }),
  patch('update', '/v1/webhook_endpoints/:id', {
    summary: 'Change a subscription',
    description:
      'Changes the address, the types, the description, the headers or the client certificate. `headers` replaces all headers. The secret, the backlog, the log and the status stay: what waits goes to the new ' +
      'address. New types apply to what is recorded after the answer.',
    answer: 'The subscription.',
    codes: ['not_found', 'webhook_url_invalid'],
    params: idParam('the subscription'),
    payload: WebhookEndpointUpdate,
    success: WebhookEndpoint,
  }),
  remove('delete', '/v1/webhook_endpoints/:id', {
    summary: 'Delete a subscription',
    description:
      'Its backlog is dropped, attempts under way are broken off, and its log can no longer be read here. The operator of the hub keeps the ' +
      'log for three years. A second deletion is `not_found`.',
    answer: 'What was deleted.',
    codes: ['not_found'],
    params: idParam('the subscription'),
    success: DeletedWebhookEndpoint,
  }),
  post('rotateSecret', '/v1/webhook_endpoints/:id/rotate_secret', {
    scope: 'manage',
    summary: 'Rotate the secret',
    description:
      'Makes a new secret, which is in this answer only. The replaced one signs as well for a day, unless the hub is set otherwise: ' +
      '`Hub-Signature` then has a `v1` for each secret, and a match of any is enough. A second rotation does not shorten the day of the first. ' +
      'At most three secrets sign at once: a rotation that would need a fourth is `rotation_in_progress`. ' +
      '`{"expire_previous": true}` ends all earlier secrets at once and is always possible.',
    answer: 'The subscription, with its new secret.',
    codes: ['not_found', 'rotation_in_progress'],
    optionalBody: SECRET_ROTATION_BODY,
    params: idParam('the subscription'),
    success: WebhookEndpointWithSecret,
  }),
  post('test', '/v1/webhook_endpoints/:id/test', {
    scope: 'manage',
    summary: 'Make a test delivery',
    description:
      'Delivers one `webhook.test` event at once, whatever the status and the types of the subscription, and answers with the attempt, ' +
      'a failed one too. It does not count as a failure, is not tried again, and is not listed with the events. One subscription has one test delivery ' +
      'at a time, and one account has four test deliveries and resends at a time; meanwhile another is `rate_limited`.',
    answer: 'The attempt, which is in the log with `trial: true`.',
    codes: ['not_found'],
    params: idParam('the subscription'),
    success: WebhookDelivery,
  }),
  post('enable', '/v1/webhook_endpoints/:id/enable', {
    scope: 'manage',
    summary: 'Enable a subscription',
    description:
      'Ends `disabled_by_failures`: the count of failures begins anew, and what has accumulated within 24 hours is delivered at once, the ' +
      'oldest first, in the same batches with the same ids. An enabled subscription stays as it is.',
    answer: 'The subscription.',
    codes: ['not_found'],
    params: idParam('the subscription'),
    success: WebhookEndpoint,
  }),
  get('deliveries', '/v1/webhook_endpoints/:id/deliveries', {
    summary: 'List delivery attempts',
    description:
      'Every attempt to deliver a batch of events to the subscription, newest first, and a line for each batch that was given up because ' +
      'its 24 hours were over. All filters apply together.',
    answer: 'A page of attempts.',
    codes: ['invalid_parameter', 'not_found'],
    params: idParam('the subscription'),
    query: {
      ...pageQuery(LIST_LIMITS),
      status: Schema.optionalKey(
        Schema.Literals(DELIVERY_STATUSES).annotate({ description: 'Only attempts of this status.' }),
      ),
      event: Schema.optionalKey(
        Schema.String.annotate({ description: 'Only attempts at batches with this event (`evt_…`).' }),
      ),
      created_after: Schema.optionalKey(
        TimestampToSend.annotate({ description: 'Only attempts that began after this moment, strictly.' }),
      ),
      created_before: Schema.optionalKey(
        TimestampToSend.annotate({ description: 'Only attempts that began before this moment, strictly.' }),
      ),
    },
    success: WebhookDeliveryList,
  }),
  post('resend', '/v1/webhook_endpoints/:id/deliveries/:delivery/resend', {
    scope: 'manage',
    summary: 'Send a batch again',
    description:
      'Sends the batch of a delivery attempt again at once, with the same `Hub-Event-Id` and the same events, whatever the status of the ' +
      'subscription, and answers with the attempt, a failed one too. It does not count as a failure and is not tried again. A batch that still ' +
      'waits keeps its own schedule. One account has four test deliveries and resends at a time; meanwhile another is `rate_limited`. The events of a ' +
      'test delivery are not kept, so it cannot be sent again.',
    answer: 'The attempt, which is in the log with `resend: true`.',
    codes: ['not_found'],
    params: {
      ...idParam('the subscription'),
      delivery: Schema.String.annotate({ description: 'Identifier of an attempt (`whd_…`) in its log.' }),
    },
    success: WebhookDelivery,
  }),
)
