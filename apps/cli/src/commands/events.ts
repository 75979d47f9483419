/** `hub events`: follows the events, and has them delivered again. */
import {
  defineCommand,
  defineGroup,
  fields,
  Json,
  NOTHING,
  printNote,
  refused,
  show,
} from '@hub/command-line'
import type { components, HubClient } from '@sms-delivery-hub/client'
import { Console, Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { attempt, connect } from '../connection/connection.ts'
import { lineOf } from '../event-line.ts'
import { afterFlag, followPages, startOf, typeFlag } from './flags.ts'

const tail = defineCommand(
  'tail',
  {
    short: 'Print events as they are recorded',
    about:
      'Prints the events of the account as they are recorded, until Ctrl-C. With --json, each line is one event.',
    changes: NOTHING,
    examples: [
      { command: 'hub events tail' },
      { command: 'hub events tail --type message.undelivered --type message.expired --json' },
    ],
  },
  {
    type: typeFlag,
    after: afterFlag('with new events'),
    limit: Flag.Int('limit').pipe(
      Flag.withDescription('End after this number of events'),
      Flag.filter(
        (limit) => limit >= 1,
        () => 'a number from 1',
      ),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ after, limit, type }) {
    const connection = yield* connect
    const json = yield* Json
    const console = yield* Console.Console
    if (Option.isNone(limit)) yield* printNote('Ctrl-C ends it.')
    yield* attempt(async (signal) => {
      const start = await startOf(connection, after, signal)
      let left = Option.getOrElse(limit, () => Number.POSITIVE_INFINITY)
      const say = (sentence: string): void => console.error(sentence)
      for await (const page of followPages(connection, { start, types: type, signal, say })) {
        for (const event of page) {
          console.log(json ? JSON.stringify(event) : lineOf(event))
          left -= 1
          if (left === 0) return
        }
      }
    })
  }),
)

type Delivery = components['schemas']['WebhookDelivery']

/** The newest attempt to deliver an event to one of the subscriptions. */
const findDelivery = async (
  client: HubClient,
  event: string,
  subscription: string | null,
  signal: AbortSignal,
): Promise<{ readonly subscription: string; readonly delivery: Delivery }> => {
  for await (const { id } of client.webhookEndpoints.list({}, { signal })) {
    if (subscription !== null && subscription !== id) continue
    for await (const delivery of client.webhookEndpoints.deliveries(id, { event, limit: 1 }, { signal })) {
      return { subscription: id, delivery }
    }
  }
  throw refused(
    'delivery_not_found',
    'No subscription has an attempt to deliver this event. List them: hub doctor',
  )
}

const resend = defineCommand(
  'resend',
  {
    short: 'Have an event delivered again',
    about:
      'Has the webhook batch with an event delivered again at once, to the subscription that got it. For ' +
      'hub listen, start it again with --after and the event before.',
    changes: 'The subscription gets the batch again, with the same ids.',
    examples: [{ command: 'hub events resend evt_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  {
    event: Argument.String('event').pipe(
      Argument.withDescription('An id from hub events tail'),
      Argument.withMetavar('evt_…'),
    ),
    subscription: Flag.String('subscription').pipe(
      Flag.withDescription('Only to this subscription'),
      Flag.withMetavar('we_…'),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ event, subscription }) {
    const { client } = yield* connect
    const attempted = yield* attempt(async (signal) => {
      const found = await findDelivery(client, event, Option.getOrNull(subscription), signal)
      return client.webhookEndpoints.resend(found.subscription, found.delivery.id, { signal })
    })
    yield* show(attempted, (one) =>
      fields({
        delivery: one.id,
        status: one.status,
        answer: one.response_code,
        reason: one.reason,
        events: one.event_ids.length,
        ms: one.duration_ms,
      }),
    )
    if (attempted.status !== 'succeeded') {
      return yield* refused('not_delivered', 'The receiver did not accept the batch.')
    }
  }),
)

export const events = defineGroup(
  'events',
  { short: 'Follow events', about: 'Follows the events of the account, and has them delivered again.' },
  [tail, resend],
)
