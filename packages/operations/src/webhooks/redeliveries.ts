/** Redeliveries: the events of a period, or one event, are delivered to a subscription again. */
import { fromTimestamp, toTimestamp } from '@hub/domain'
import {
  type EventRedeliveryRefused,
  readRedelivery,
  requestEventRedelivery,
  requestRedelivery,
} from '@hub/webhooks'
import { Clock, Effect, Schema } from 'effect'
import { refused } from '../failures.ts'
import { publicId, Timestamp, Uuid } from '../fields.ts'
import { defineUseCase } from '../use-case.ts'

/** Requests a redelivery. Each repeat delivers the events once more, in separate batches. */
export const redeliver = defineUseCase({
  name: 'webhooks redeliver',
  permission: 'messages.resend',
  members: 'named',
  input: Schema.Struct({
    id: publicId('we'),
    from: Timestamp.annotate({ description: 'Events recorded at this time or later.' }),
    until: Schema.NullOr(Timestamp).annotate({
      description: 'Events recorded before this time; `null`: before now.',
    }),
  }),
  output: Schema.Struct({
    id: Schema.String,
    object: Schema.Literal('redelivery'),
    subscription: publicId('we'),
    from: Timestamp,
    until: Timestamp,
  }),
  audit: ({ from, id, until }) => ({ subscription: id, from, until }),
  result: ({ id, until }) => ({ redelivery: id, until }),
  run: ({ from, id, until }) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const end = Math.min(until === null ? now : (fromTimestamp(until) ?? now), now)
      const redelivery = yield* requestRedelivery({
        subscription: id,
        from: fromTimestamp(from) ?? now,
        until: end,
      }).pipe(
        Effect.catchTag('RedeliveryRefused', ({ reason }) =>
          Effect.fail(
            reason === 'subscription_unknown'
              ? refused('subscription_not_found', `There is no subscription ${id}.`, 'id')
              : refused('period_empty', 'The period ends before it begins.', 'until'),
          ),
        ),
      )
      return {
        id: redelivery,
        object: 'redelivery' as const,
        subscription: id,
        from,
        until: toTimestamp(end),
      }
    }),
})

const EVENT_REFUSED: Readonly<
  Record<EventRedeliveryRefused['reason'], readonly [code: string, message: string, param: string]>
> = {
  subscription_unknown: ['subscription_not_found', 'There is no such subscription.', 'id'],
  event_unknown: ['event_not_found', 'The account and mode of the subscription have no such event.', 'event'],
  type_not_wanted: ['type_not_wanted', 'The subscription does not receive events of this type.', 'event'],
}

/**
 * Requests a redelivery of one event, in a batch of its own. A resend repeats the whole batch with its id;
 * one event under that id would be another content, and a receiver may drop a batch that it has seen.
 */
export const redeliverEvent = defineUseCase({
  name: 'webhooks redeliver-event',
  permission: 'messages.resend',
  members: 'named',
  input: Schema.Struct({ id: publicId('we'), event: publicId('evt') }),
  output: Schema.Struct({
    id: Schema.String,
    object: Schema.Literal('redelivery'),
    subscription: publicId('we'),
    event: publicId('evt'),
  }),
  audit: ({ event, id }) => ({ subscription: id, event }),
  result: ({ id }) => ({ redelivery: id }),
  run: ({ event, id }) =>
    requestEventRedelivery({ subscription: id, event }).pipe(
      Effect.catchTag('EventRedeliveryRefused', ({ reason }) =>
        Effect.fail(refused(...EVENT_REFUSED[reason])),
      ),
      Effect.map((made) => ({ id: made, object: 'redelivery' as const, subscription: id, event })),
    ),
})

/** The progress of a redelivery. */
export const redelivery = defineUseCase({
  name: 'webhooks redelivery',
  permission: 'webhooks.read',
  input: Schema.Struct({ id: Uuid }),
  output: Schema.Struct({
    id: Schema.String,
    object: Schema.Literal('redelivery'),
    events: Schema.Int.annotate({ description: 'Events in batches so far.' }),
    batches: Schema.Int,
    pending: Schema.Int.annotate({ description: 'Batches that still wait.' }),
    queued_at: Schema.NullOr(Timestamp).annotate({ description: 'When the last event was queued.' }),
  }),
  audit: null,
  run: ({ id }) =>
    Effect.gen(function* () {
      const found = yield* readRedelivery(id)
      if (found === null) {
        return yield* refused('redelivery_not_found', `There is no redelivery ${id}.`, 'id')
      }
      const { batches, events, finishedAt, pending } = found
      return {
        id,
        object: 'redelivery' as const,
        events,
        batches,
        pending,
        queued_at: finishedAt === null ? null : toTimestamp(finishedAt),
      }
    }),
})
