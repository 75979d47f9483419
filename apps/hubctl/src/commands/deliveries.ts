/** `hubctl deliveries`: the webhook delivery log of all accounts, and resends. */
import { decodeId } from '@hub/domain'
import { WebhooksAttempts } from '@hub/store'
import { type NotDelivered, resendDelivery, type ResendRefused } from '@hub/webhooks'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { choiceFlag, idArgument, limitFlag, timestampFlag } from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { database, query } from '../command-line/connections.ts'
import { refused, unavailable } from '../command-line/failure.ts'
import { fields, show, showList } from '../command-line/output.ts'

const subscriptionArgument = idArgument('we', 'subscription', 'An id from hubctl webhooks list')

const kindOf = ({ redelivery, resend, trial }: ReturnType<typeof WebhooksAttempts.toDelivery>) =>
  trial ? 'trial' : resend ? 'resend' : redelivery ? 'redelivery' : 'delivery'

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
    needs: database,
  },
  {
    subscription: subscriptionArgument,
    status: choiceFlag('status', ['succeeded', 'failed'], 'Only this status'),
    event: Flag.String('event').pipe(
      Flag.withDescription('Only attempts at batches with this event'),
      Flag.withMetavar('evt_…'),
      Flag.filterMap(
        (id) => Option.fromNullishOr(decodeId('evt', id)),
        () => 'an id that begins with evt_',
      ),
      Flag.optional,
    ),
    after: timestampFlag('after', 'Attempts after this time').pipe(Flag.optional),
    before: timestampFlag('before', 'Attempts before this time').pipe(Flag.optional),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ after, before, event, limit, status, subscription }) {
    const filter = {
      status,
      event: Option.getOrNull(event),
      createdAfter: Option.getOrNull(after),
      createdBefore: Option.getOrNull(before),
    }
    const rows = yield* query((q) => WebhooksAttempts.readPage(q, subscription.uuid, filter, null, limit))
    yield* showList(
      (rows ?? []).map(WebhooksAttempts.toDelivery),
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

const RESEND_REFUSED: Readonly<Record<ResendRefused['reason'], string>> = {
  attempt_unknown: 'The subscription does not exist, or it has no such delivery.',
  test_delivery: 'The events of a test delivery are not kept.',
  events_expired: 'The events of this batch are no longer stored.',
  too_many: 'Four trials and resends of the account are in progress. Repeat the command in a second.',
}

const NOT_DELIVERED: Readonly<Record<NotDelivered['reason'], string>> = {
  deleted: 'The subscription was deleted meanwhile.',
  unavailable: 'No process of the fan-out made and recorded the delivery in time.',
}

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
    needs: database,
  },
  {
    subscription: subscriptionArgument,
    delivery: idArgument('whd', 'delivery', 'An id from hubctl deliveries list'),
  },
  Effect.fnUntraced(function* ({ delivery, subscription }) {
    const attempt = yield* audited(
      {
        command: 'deliveries resend',
        arguments: { subscription: subscription.id, delivery: delivery.id },
      },
      resendDelivery({ endpoint: subscription.uuid, attempt: delivery.uuid }).pipe(
        Effect.catchTags({
          ResendRefused: ({ reason }) => Effect.fail(refused(reason, RESEND_REFUSED[reason])),
          NotDelivered: ({ reason }) => Effect.fail(unavailable('not_delivered', NOT_DELIVERED[reason])),
        }),
      ),
      ({ response_code, status }) => ({ status, response_code }),
    )
    yield* show(WebhooksAttempts.toDelivery(attempt), (made) =>
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
