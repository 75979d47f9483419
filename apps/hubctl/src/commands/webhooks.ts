/** `hubctl webhooks`: webhook subscriptions of all accounts, and redeliveries. */
import { confirm, defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import { SUBSCRIPTION_STATUSES, toTimestamp } from '@hub/domain'
import { Webhooks } from '@hub/operations'
import { Clock, Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import {
  accountFlag,
  choiceFlag,
  idArgument,
  limitFlag,
  modeFlag,
  timestampFlag,
  uuidArgument,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const subscriptionArgument = idArgument('we', 'subscription', 'An id from hubctl webhooks list')

const list = defineCommand(
  'list',
  {
    short: 'List subscriptions',
    about:
      'Lists webhook subscriptions of all accounts or of one, newest first. The delivery log of the API ' +
      'shows the deliveries.',
    changes: NOTHING,
    examples: [
      {
        command: 'hubctl webhooks list --status disabled_by_failures',
        description: 'Subscriptions that receive nothing',
      },
    ],
  },
  {
    account: accountFlag,
    mode: modeFlag,
    status: choiceFlag('status', SUBSCRIPTION_STATUSES, 'Only this status'),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* (filter) {
    const { data } = yield* run(Webhooks.list, { ...filter, cursor: null })
    yield* showList(
      data,
      {
        subscription: (row) => row.id,
        account: (row) => row.account,
        mode: (row) => row.mode,
        status: (row) => row.status,
        'failures in a row': (row) => row.consecutive_failures,
        disabled: (row) => row.disabled_at,
        headers: (row) => row.header_names.join(', '),
        'certificate until': (row) => row.client_certificate?.not_after ?? null,
        url: (row) => row.url,
      },
      'There are none.',
    )
  }),
)

const enable = defineCommand(
  'enable',
  {
    short: 'Enable a subscription that failures disabled',
    about:
      'Enables a subscription that was disabled by failures. The account can do it too. Waiting events ' +
      'that are not older than 24 hours are delivered immediately.',
    changes:
      'The subscription receives events again after some seconds. An enabled subscription does not ' +
      'change.',
    examples: [{ command: 'hubctl webhooks enable we_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  { subscription: subscriptionArgument },
  Effect.fnUntraced(function* ({ subscription }) {
    const enabled = yield* run(Webhooks.enable, { id: subscription })
    yield* show(enabled, ({ changed, id }) =>
      fields({ subscription: id, enabled: changed ? 'now' : 'already before; nothing was changed' }),
    )
  }),
)

const redeliver = defineCommand(
  'redeliver',
  {
    short: 'Deliver the events of a period again',
    about:
      'Requests another delivery of the events of a period to a subscription: all events of its types, ' +
      'with their original ids. Each repeat of the command delivers once more. hubctl webhooks ' +
      'redelivery shows the progress.',
    changes:
      'The receiver gets the events again, in separate batches. Their results do not affect the health ' +
      'of the subscription.',
    examples: [
      {
        command:
          'hubctl webhooks redeliver we_01m7yt89qhe54swwc8wkxj6n8e --from 2026-11-20T08:00Z --until 2026-11-20T12:00Z',
      },
    ],
  },
  {
    subscription: subscriptionArgument,
    from: timestampFlag('from', 'Events recorded at this time or later'),
    until: timestampFlag('until', 'Events recorded before this time (default: now)').pipe(Flag.optional),
  },
  Effect.fnUntraced(function* ({ from, subscription, until }) {
    const before = Option.getOrElse(until, () => Number.MAX_SAFE_INTEGER)
    const end = Math.min(before, yield* Clock.currentTimeMillis)
    const period = { from: toTimestamp(from), until: toTimestamp(end) }
    yield* confirm(`Deliver the events from ${period.from} until ${period.until} to ${subscription} again?`)
    const requested = yield* run(Webhooks.redeliver, { id: subscription, ...period })
    yield* show(requested, ({ id }) =>
      fields({
        redelivery: id,
        subscription: subscription,
        ...period,
        next: `hubctl webhooks redelivery ${id}`,
      }),
    )
  }),
)

const redeliverEvent = defineCommand(
  'redeliver-event',
  {
    short: 'Deliver one event again',
    about:
      'Requests another delivery of exactly one event to a subscription, with its original id. Each repeat ' +
      'of the command delivers once more. hubctl deliveries resend sends a whole batch again.',
    changes:
      'The receiver gets the event again, in a batch of its own with a new id. The result does not affect ' +
      'the health of the subscription.',
    examples: [
      {
        command:
          'hubctl webhooks redeliver-event we_01m7yt89qhe54swwc8wkxj6n8e evt_01m7yt89qhe54swwc8wkxj6n8e',
      },
    ],
  },
  {
    subscription: subscriptionArgument,
    event: idArgument('evt', 'event', 'An id from GET /v1/events or a delivery log'),
  },
  Effect.fnUntraced(function* ({ event, subscription }) {
    yield* confirm(`Deliver ${event} to ${subscription} again?`)
    yield* show(yield* run(Webhooks.redeliverEvent, { id: subscription, event }), ({ id }) =>
      fields({ redelivery: id, event, next: `hubctl webhooks redelivery ${id}` }),
    )
  }),
)

const redelivery = defineCommand(
  'redelivery',
  {
    short: 'Show the progress of a redelivery',
    about:
      'Shows the number of queued events of a redelivery, and the batches that still wait. A disabled ' +
      'subscription receives nothing, so its batches wait.',
    changes: NOTHING,
    examples: [{ command: 'hubctl webhooks redelivery 0199c4de-6f0a-4d1e-9a65-3f1f5f7a2b11' }],
  },
  {
    id: uuidArgument('id', 'The id from hubctl webhooks redeliver'),
  },
  Effect.fnUntraced(function* ({ id }) {
    yield* show(yield* run(Webhooks.redelivery, { id }), ({ batches, events, pending, queued_at }) =>
      fields({
        redelivery: id,
        'events queued': events,
        batches,
        'waiting batches': pending,
        'all queued': queued_at ?? 'not yet',
      }),
    )
  }),
)

export const webhooks = defineGroup(
  'webhooks',
  {
    short: 'Webhook subscriptions: enable, deliver again',
    about: 'Accounts manage their webhook subscriptions through the API. Hub staff help them here.',
  },
  [list, enable, redeliver, redeliverEvent, redelivery],
)
