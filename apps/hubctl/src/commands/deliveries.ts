/** `hubctl deliveries`: the webhook delivery log of all accounts, and resends. */
import { defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import { decodeId, toTimestamp } from '@hub/domain'
import { Deliveries } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { choiceFlag, idArgument, limitFlag, timestampFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const subscriptionArgument = idArgument('we', 'subscription', 'An id from hubctl webhooks list')

const kindOf = ({ redelivery, resend, trial }: typeof Deliveries.Delivery.Type) =>
  trial ? 'test delivery' : resend ? 'resend' : redelivery ? 'redelivery' : 'delivery'

const list = defineCommand(
  'list',
  {
    short: 'List the delivery log of a subscription',
    about:
      'Lists the attempts to deliver events to a subscription, newest first. The log of a deleted ' +
      'subscription stays for three years, and this command can read it.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl deliveries list we_01m7yt89qhe54swwc8wkxj6n8e --status failed' },
      {
        command:
          'hubctl deliveries list we_01m7yt89qhe54swwc8wkxj6n8e --event evt_01m7yt89qhe54swwc8wkxj6n8e --json',
      },
    ],
  },
  {
    subscription: subscriptionArgument,
    status: choiceFlag('status', ['succeeded', 'failed'], 'Only this status'),
    event: Flag.String('event').pipe(
      Flag.withDescription('Only attempts at batches with this event'),
      Flag.withMetavar('evt_…'),
      Flag.filter(
        (id) => decodeId('evt', id) !== null,
        () => 'an id that begins with evt_',
      ),
      Flag.optional,
    ),
    after: timestampFlag('after', 'Attempts after this time').pipe(Flag.optional),
    before: timestampFlag('before', 'Attempts before this time').pipe(Flag.optional),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ after, before, event, limit, status, subscription }) {
    const timestampOf = (ms: Option.Option<number>) => Option.getOrNull(Option.map(ms, toTimestamp))
    const { data } = yield* run(Deliveries.list, {
      webhook_endpoint: subscription,
      status,
      response_code: null,
      event: Option.getOrNull(event),
      created_after: timestampOf(after),
      created_before: timestampOf(before),
      limit,
      cursor: null,
    })
    yield* showList(
      data,
      {
        delivery: (row) => row.id,
        status: (row) => row.status,
        kind: kindOf,
        attempt: (row) => row.attempt,
        answer: (row) => row.response_code,
        reason: (row) => row.reason,
        events: (row) => row.event_ids.length,
        ms: (row) => row.duration_ms,
        at: (row) => row.created_at,
        next: (row) => row.next_attempt_at,
      },
      'There are none.',
    )
  }),
)

const resend = defineCommand(
  'resend',
  {
    short: 'Send the batch of a delivery again',
    about:
      'Sends the batch of a delivery again at once, with the same events and the same Hub-Event-Id, and ' +
      'shows the answer of the receiver. The attempt does not count as a failure of the subscription.',
    changes: 'The receiver gets the batch once more. The delivery log gets another attempt.',
    examples: [
      {
        command: 'hubctl deliveries resend we_01m7yt89qhe54swwc8wkxj6n8e whd_01m7yt89qhe54swwc8wkxj6n8e',
      },
    ],
  },
  {
    subscription: subscriptionArgument,
    delivery: idArgument('whd', 'delivery', 'An id from hubctl deliveries list'),
  },
  Effect.fnUntraced(function* ({ delivery, subscription }) {
    const sent = yield* run(Deliveries.resend, {
      webhook_endpoint: subscription,
      delivery: delivery,
      event_batch: null,
      event: null,
    })
    yield* show(sent, (made) =>
      fields({
        delivery: made.id,
        status: made.status,
        answer: made.response_code,
        reason: made.reason,
        events: made.event_ids.length,
        ms: made.duration_ms,
      }),
    )
  }),
)

export const deliveries = defineGroup(
  'deliveries',
  {
    short: 'Webhook deliveries: list the log, send again',
    about: 'The delivery log of the webhook subscriptions of all accounts.',
  },
  [list, resend],
)
