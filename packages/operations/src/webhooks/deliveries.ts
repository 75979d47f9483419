/**
 * The webhook delivery log of all accounts: attempts with the body that was signed, and how to send
 * a batch again or to make a test delivery.
 */
import { encodeId, fromTimestamp } from '@hub/domain'
import {
  type Queries,
  ReadEvents,
  uuidOf,
  WebhooksAttempts,
  WebhooksBatches,
  WebhooksEndpoints,
} from '@hub/store'
import {
  deliverTest,
  type NotDelivered,
  resendDelivery,
  type ResendRefused,
  type TestDeliveryRefused,
} from '@hub/webhooks'
import { Effect, Schema } from 'effect'
import { OperationUnavailable, refused } from '../failures.ts'
import { publicId, Timestamp, Uuid } from '../fields.ts'
import { decodeCursor, encodeCursor, listOf, pageFields } from '../pages.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'

export const Delivery = Schema.Struct({
  id: publicId('whd'),
  object: Schema.Literal('webhook_delivery'),
  event_batch: publicId('evb'),
  event_ids: Schema.Array(Schema.String),
  attempt: Schema.Int,
  status: Schema.Literals(['succeeded', 'failed']),
  response_code: Schema.NullOr(Schema.Int),
  duration_ms: Schema.Int,
  reason: Schema.NullOr(Schema.String),
  trial: Schema.Boolean.annotate({ description: 'A test delivery.' }),
  redelivery: Schema.Boolean,
  resend: Schema.Boolean,
  created_at: Timestamp,
  next_attempt_at: Schema.NullOr(Timestamp),
}).annotate({ identifier: 'WebhookDelivery' })

/** `hubctl deliveries list` reads the log of a deleted subscription too. */
const requireSubscription = Effect.fnUntraced(function* (id: string) {
  const owner = yield* query((q) => WebhooksEndpoints.readOwner(q, uuidOf('we', id)))
  return (
    owner ?? (yield* refused('subscription_not_found', `There is no subscription ${id}.`, 'webhook_endpoint'))
  )
})

const moment = (text: string | null) => (text === null ? null : fromTimestamp(text))

export const list = defineUseCase({
  name: 'deliveries list',
  permission: 'webhooks.read',
  members: 'named',
  input: Schema.Struct({
    webhook_endpoint: publicId('we'),
    status: Schema.NullOr(Schema.Literals(['succeeded', 'failed'])),
    response_code: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 599 }))),
    event: Schema.NullOr(publicId('evt')).annotate({
      description: 'Only attempts at batches with this event.',
    }),
    created_after: Schema.NullOr(Timestamp),
    created_before: Schema.NullOr(Timestamp),
    ...pageFields,
  }),
  output: listOf(Delivery),
  audit: null,
  run: (input) =>
    Effect.gen(function* () {
      yield* requireSubscription(input.webhook_endpoint)
      // The cursor is an attempt.
      const below = yield* decodeCursor(Uuid, input.cursor)
      const filter = {
        status: input.status,
        responseCode: input.response_code,
        event: input.event === null ? null : uuidOf('evt', input.event),
        createdAfter: moment(input.created_after),
        createdBefore: moment(input.created_before),
      }
      const subscriptionId = uuidOf('we', input.webhook_endpoint)
      const { next, rows } = yield* query((q) =>
        WebhooksAttempts.findPage(q, subscriptionId, filter, below, input.limit),
      )
      return {
        object: 'list' as const,
        data: rows.map(WebhooksAttempts.toDelivery),
        next_cursor: next === null ? null : encodeCursor(next),
      }
    }),
})

const attemptNotFound = (id: string) => refused('delivery_not_found', `There is no delivery ${id}.`, 'id')

/** A waiting batch has its body. That of an ended one is made again from its events, byte for byte. */
const readBody = async (
  q: Queries,
  subscriptionId: string,
  owner: ReadEvents.Journal,
  attempt: WebhooksAttempts.Attempt,
): Promise<string | null> => {
  if (attempt.trial) return null
  const waiting = await WebhooksBatches.readBody(q, subscriptionId, attempt.batch_id)
  if (waiting !== null) return waiting
  const bodies = await ReadEvents.readBodies(q, owner, attempt.event_ids)
  return bodies.length === 0 || bodies.length < attempt.event_ids.length ? null : `[${bodies.join(',')}]`
}

export const get = defineUseCase({
  name: 'deliveries show',
  permission: 'webhooks.read',
  members: 'named',
  input: Schema.Struct({ id: publicId('whd') }),
  output: Schema.Struct({
    ...Delivery.fields,
    webhook_endpoint: publicId('we'),
    signed_body: Schema.NullOr(Schema.String).annotate({
      description:
        'The body that was signed and sent, byte for byte. `null`: the event of a test delivery is not stored, or the events are older than three years.',
    }),
  }).annotate({ identifier: 'WebhookDeliveryDetails' }),
  audit: null,
  run: ({ id }) =>
    Effect.gen(function* () {
      const found = yield* query(async (q) => {
        const subscriptionId = await WebhooksAttempts.findSubscription(q, uuidOf('whd', id))
        if (subscriptionId === null) return null
        const owner = await WebhooksEndpoints.readOwner(q, subscriptionId)
        const attempt = await WebhooksAttempts.read(q, subscriptionId, uuidOf('whd', id))
        if (owner === null || attempt === null) return null
        return { attempt, subscriptionId, body: await readBody(q, subscriptionId, owner, attempt) }
      })
      if (found === null) return yield* attemptNotFound(id)
      return {
        ...WebhooksAttempts.toDelivery(found.attempt),
        webhook_endpoint: encodeId('we', found.subscriptionId),
        signed_body: found.body,
      }
    }),
})

type Refusal = readonly [code: string, message: string]

const RESEND_REFUSED: Readonly<Record<ResendRefused['reason'], Refusal>> = {
  attempt_unknown: ['delivery_not_found', 'The subscription does not exist, or it has no such delivery.'],
  test_delivery: ['test_delivery', 'The events of a test delivery are not kept.'],
  events_expired: ['events_expired', 'The events of this batch are no longer stored.'],
  too_many: [
    'too_many',
    'Four test deliveries and resends of the account are in progress. Try again in a second.',
  ],
}

const TEST_REFUSED: Readonly<Record<TestDeliveryRefused['reason'], Refusal>> = {
  subscription_unknown: ['subscription_not_found', 'The subscription does not exist.'],
  too_many: [
    'too_many',
    'A test delivery of this subscription is in progress, or four test deliveries and resends of the account. Try again in a second.',
  ],
}

const NOT_DELIVERED: Readonly<Record<NotDelivered['reason'], string>> = {
  deleted: 'The subscription was deleted meanwhile.',
  unavailable: 'No process of the fan-out made and recorded the delivery in time.',
}

const notDelivered = ({ reason }: NotDelivered) =>
  Effect.fail(new OperationUnavailable({ code: 'not_delivered', message: NOT_DELIVERED[reason] }))

const ONE_RULE = 'Name exactly one of delivery, event_batch and event.'

/** The newest attempt at what is to be sent again; `null`: it was never attempted. */
const newestAttempt = async (
  q: Queries,
  subscriptionId: string,
  { event, event_batch }: { readonly event: string | null; readonly event_batch: string | null },
): Promise<WebhooksAttempts.Attempt | null> => {
  if (event_batch !== null) {
    const [attempt] = await WebhooksAttempts.readOfBatch(q, subscriptionId, uuidOf('evb', event_batch), 1)
    return attempt ?? null
  }
  const filter = { ...WebhooksAttempts.ALL_ATTEMPTS, event: event === null ? null : uuidOf('evt', event) }
  const [attempt] = (await WebhooksAttempts.readPage(q, subscriptionId, filter, null, 1)) ?? []
  return attempt ?? null
}

/**
 * Sends a webhook batch again at once, with the same events and the same id: the batch of a delivery,
 * a batch by its id, or the batch that contains an event. It does not count as a failure.
 */
export const resend = defineUseCase({
  name: 'deliveries resend',
  permission: 'messages.resend',
  members: 'named',
  input: Schema.Struct({
    webhook_endpoint: publicId('we'),
    delivery: Schema.NullOr(publicId('whd')),
    event_batch: Schema.NullOr(publicId('evb')),
    event: Schema.NullOr(publicId('evt')),
  }),
  output: Delivery,
  audit: ({ delivery, event, event_batch, webhook_endpoint }) => ({
    subscription: webhook_endpoint,
    ...(delivery === null ? {} : { delivery }),
    ...(event_batch === null ? {} : { event_batch }),
    ...(event === null ? {} : { event }),
  }),
  result: ({ id, response_code, status }) => ({ delivery: id, status, response_code }),
  run: ({ delivery, event, event_batch, webhook_endpoint }) =>
    Effect.gen(function* () {
      if ([delivery, event_batch, event].filter((one) => one !== null).length !== 1) {
        return yield* refused('invalid_parameter', ONE_RULE, 'delivery')
      }
      const subscriptionId = uuidOf('we', webhook_endpoint)
      const found =
        delivery === null
          ? yield* query((q) => newestAttempt(q, subscriptionId, { event, event_batch }))
          : null
      if (delivery === null && found === null) {
        return yield* refused(
          'never_attempted',
          'The subscription has no attempt to deliver this. A waiting batch is attempted by itself.',
        )
      }
      const attempt = delivery === null ? (found?.id ?? '') : uuidOf('whd', delivery)
      const made = yield* resendDelivery({ subscriptionId, attempt }).pipe(
        Effect.catchTags({
          ResendRefused: ({ reason }) => Effect.fail(refused(...RESEND_REFUSED[reason])),
          NotDelivered: notDelivered,
        }),
      )
      return WebhooksAttempts.toDelivery(made)
    }),
})

/** Sends an event of type `webhook.test` to a subscription, and shows the answer of the receiver. */
export const test = defineUseCase({
  name: 'webhooks test',
  permission: 'messages.resend',
  members: 'named',
  input: Schema.Struct({ id: publicId('we') }),
  output: Delivery,
  audit: ({ id }) => ({ subscription: id }),
  result: ({ id, response_code, status }) => ({ delivery: id, status, response_code }),
  run: ({ id }) =>
    deliverTest(uuidOf('we', id)).pipe(
      Effect.map(WebhooksAttempts.toDelivery),
      Effect.catchTags({
        TestDeliveryRefused: ({ reason }) => Effect.fail(refused(...TEST_REFUSED[reason])),
        NotDelivered: notDelivered,
      }),
    ),
})
