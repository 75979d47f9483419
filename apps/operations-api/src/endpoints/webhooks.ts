/** Webhook subscriptions and deliveries of all accounts. */
import { Deliveries, Webhooks } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { CURSOR_INVALID } from './refusals.ts'

const NOT_FOUND = { subscription_not_found: { message: 'There is no such subscription.', param: 'id' } }
const ON_DEMAND = {
  too_many: { message: 'Four test deliveries and resends of the account are in progress.' },
}

export const webhooks: EndpointGroup = {
  name: 'webhooks',
  title: 'Webhooks',
  description:
    'Webhook subscriptions of all accounts, their delivery logs, and deliveries that staff request.',
  endpoints: [
    ...list({
      operation: 'webhooks.list',
      method: 'GET',
      path: '/v1/webhook_endpoints',
      summary: 'List subscriptions',
      description: 'Webhook subscriptions with their health and their backlog, newest first.',
      useCase: Webhooks.list,
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'webhooks.read',
      method: 'GET',
      path: '/v1/webhook_endpoints/:id',
      summary: 'Read a subscription',
      description: 'A webhook subscription with its health and its backlog.',
      useCase: Webhooks.get,
      refusals: NOT_FOUND,
    }),
    endpoint({
      operation: 'webhooks.enable',
      method: 'POST',
      path: '/v1/webhook_endpoints/:id/enable',
      summary: 'Enable a subscription',
      description:
        'Enables a subscription that failures disabled. Waiting events that are not older than 24 hours are delivered at once.',
      useCase: Webhooks.enable,
      refusals: NOT_FOUND,
    }),
    endpoint({
      operation: 'webhooks.test',
      method: 'POST',
      path: '/v1/webhook_endpoints/:id/test',
      summary: 'Send a test delivery',
      description:
        'Sends an event of type `webhook.test` at once, and answers with the attempt. It does not change the health of the subscription.',
      useCase: Webhooks.test,
      refusals: { ...NOT_FOUND, ...ON_DEMAND },
    }),
    endpoint({
      operation: 'webhooks.redeliver',
      method: 'POST',
      path: '/v1/webhook_endpoints/:id/redeliver',
      summary: 'Deliver the events of a period again',
      description:
        'Requests another delivery of all events of a period, in separate batches and with their ids. Each repeat delivers them once more.',
      useCase: Webhooks.redeliver,
      refusals: {
        ...NOT_FOUND,
        period_empty: { message: 'The period ends before it begins.', param: 'until' },
      },
    }),
    endpoint({
      operation: 'webhooks.redeliver_event',
      method: 'POST',
      path: '/v1/webhook_endpoints/:id/redeliver_event',
      summary: 'Deliver one event again',
      description:
        'Requests another delivery of exactly one event, in a batch of its own with a new id. Each repeat delivers it once more.',
      useCase: Webhooks.redeliverEvent,
      refusals: {
        ...NOT_FOUND,
        event_not_found: { message: 'The account has no such event in this mode.', param: 'event' },
        type_not_wanted: {
          message: 'The subscription does not receive events of this type.',
          param: 'event',
        },
      },
    }),
    endpoint({
      operation: 'webhooks.read_redelivery',
      method: 'GET',
      path: '/v1/redeliveries/:id',
      summary: 'Read the progress of a redelivery',
      description: 'How many events a redelivery has queued, and how many batches still wait.',
      useCase: Webhooks.redelivery,
      refusals: { redelivery_not_found: { message: 'There is no such redelivery.', param: 'id' } },
    }),
    endpoint({
      operation: 'webhooks.resend',
      method: 'POST',
      path: '/v1/webhook_endpoints/:webhook_endpoint/resend',
      summary: 'Send a batch again',
      description:
        'Sends a webhook batch again at once, with the same events and the same id: the batch of a `delivery`, a batch by its id ' +
        '(`event_batch`), or the batch that contains an `event`. It answers with the attempt.',
      useCase: Deliveries.resend,
      refusals: {
        delivery_not_found: { message: 'The subscription has no such delivery.' },
        never_attempted: { message: 'The subscription has no attempt to deliver this.' },
        test_delivery: { message: 'The events of a test delivery are not kept.' },
        events_expired: { message: 'The events of this batch are no longer stored.' },
        ...ON_DEMAND,
      },
    }),
    ...list({
      operation: 'webhooks.list_attempts',
      method: 'GET',
      path: '/v1/webhook_attempts',
      summary: 'List attempts',
      description:
        'The attempts to deliver to a subscription, newest first. With `response_code`, a page may be short or empty although more ' +
        'follow: read on while `next_cursor` is not `null`.',
      useCase: Deliveries.list,
      refusals: {
        ...CURSOR_INVALID,
        subscription_not_found: { message: 'There is no such subscription.', param: 'webhook_endpoint' },
      },
    }),
    endpoint({
      operation: 'webhooks.read_attempt',
      method: 'GET',
      path: '/v1/webhook_attempts/:id',
      summary: 'Read an attempt',
      description: 'An attempt with the body that was signed, byte for byte.',
      useCase: Deliveries.get,
      refusals: { delivery_not_found: { message: 'There is no such delivery.', param: 'id' } },
    }),
  ],
}
