/** `hubctl webhooks`: subscriptions of all accounts, enabling them again, and repeating deliveries. */
import { settings } from '@hub/config'
import { encodeId, type Mode, SUBSCRIPTION_STATUSES, type SubscriptionStatus, toTimestamp } from '@hub/domain'
import { encodeOutboxRow, subscriptionChangedRecord, topicNames } from '@hub/kafka'
import { CommandOutbox, type Queries, Sql } from '@hub/store'
import { enableEndpoint, type EnableResult, readRedelivery, requestRedelivery } from '@hub/webhooks'
import { Clock, Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import {
  accountFlag,
  type Id,
  idArgument,
  limitFlag,
  modeFlag,
  timestampFlag,
} from '../command-line/arguments.ts'

const endpointArgument = idArgument(
  'we',
  'subscription',
  'The subscription, as hubctl webhooks list shows it',
)

interface Row {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly url: string
  readonly event_types: ReadonlyArray<string>
  readonly status: SubscriptionStatus
  readonly consecutive_failures: number
  readonly disabled_at: Date | null
  readonly disabled_reason: string | null
  readonly created_at: Date
}

const columns = (q: Queries) => q`
  id, account, mode, url, event_types, status, consecutive_failures, disabled_at, disabled_reason, created_at`

const endpointObject = (row: Row) => ({
  ...row,
  id: encodeId('we', row.id),
  object: 'webhook_endpoint',
  account: encodeId('acc', row.account),
  disabled_at: row.disabled_at?.toISOString() ?? null,
  created_at: row.created_at.toISOString(),
})

const unknown = (subscription: Id) =>
  refused('subscription_not_found', `There is no subscription ${subscription.id}.`)

const list = defineCommand(
  'list',
  {
    short: 'Subscriptions of all accounts',
    about:
      'Lists webhook subscriptions, newest first. What became of each delivery is in the delivery log of the API.',
    changes: NOTHING,
    examples: [
      {
        command: 'hubctl webhooks list --status disabled_by_failures',
        description: 'Those that receive nothing',
      },
    ],
    needs: database,
  },
  {
    account: accountFlag,
    mode: modeFlag,
    status: Flag.Literals('status', SUBSCRIPTION_STATUSES).pipe(
      Flag.withDescription('Only of this status'),
      Flag.optional,
    ),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ account, limit, mode, status }) {
    const sql = yield* Sql
    const of = Option.getOrNull(account)?.uuid ?? null
    const within = Option.getOrNull(mode)
    const standing = Option.getOrNull(status)
    const rows = yield* sql.run(
      (q) => q<Row[]>`
        SELECT ${columns(q)} FROM webhooks.endpoints
         WHERE deleted_at IS NULL AND (${of}::uuid IS NULL OR account = ${of})
           AND (${within}::command.mode IS NULL OR mode = ${within})
           AND (${standing}::text IS NULL OR status = ${standing})
         ORDER BY created_at DESC, id DESC LIMIT ${limit}`,
    )
    const data = rows.map(endpointObject)
    yield* show({ object: 'list', data }, () =>
      table(
        data,
        {
          subscription: (row) => row.id,
          account: (row) => row.account,
          mode: (row) => row.mode,
          status: (row) => row.status,
          'failures in a row': (row) => row.consecutive_failures,
          disabled: (row) => row.disabled_at,
          url: (row) => row.url,
        },
        'There are none.',
      ),
    )
  }),
)

const enable = defineCommand(
  'enable',
  {
    short: 'Deliver again to a subscription that failures have disabled',
    about:
      'Enables a subscription that was disabled by failures, as its account can do by itself. What has accumulated is delivered at once, as far as it is not older than 24 hours.',
    changes: 'The subscription receives again, some seconds later. On one that is enabled nothing.',
    examples: [{ command: 'hubctl webhooks enable we_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { subscription: endpointArgument },
  Effect.fnUntraced(function* ({ subscription }) {
    const sql = yield* Sql
    const topics = topicNames(yield* settings.topicPrefix.config)
    const now = yield* Clock.currentTimeMillis
    const outcome = yield* audited(
      { command: 'webhooks enable', arguments: { subscription: subscription.id } },
      sql.transaction(async (q): Promise<EnableResult> => {
        const done = await enableEndpoint(q, subscription.uuid)
        if (done !== 'enabled') return done
        const [row] = await q<
          Row[]
        >`SELECT ${columns(q)} FROM webhooks.endpoints WHERE id = ${subscription.uuid}`
        if (row === undefined) return 'unknown'
        const record = subscriptionChangedRecord(topics, {
          type: 'SubscriptionChanged',
          account: encodeId('acc', row.account),
          mode: row.mode,
          subscription: subscription.id,
          change: 'enabled',
          at: now,
        })
        // command-api publishes what lies there.
        await CommandOutbox.insert(q, encodeOutboxRow([record]))
        return done
      }),
      (done) => ({ outcome: done }),
    )
    if (outcome === 'unknown') return yield* unknown(subscription)
    yield* show(
      { id: subscription.id, object: 'webhook_endpoint', status: 'enabled', changed: outcome === 'enabled' },
      (value) =>
        fields({
          subscription: value.id,
          enabled: value.changed ? 'now' : 'before already; nothing was changed',
        }),
    )
  }),
)

const redeliver = defineCommand(
  'redeliver',
  {
    short: 'Deliver the events of a period once more',
    about:
      'Asks for the events of a period to be delivered to a subscription once more: all of the types that it asks for, with the ids that they have always had. Each request is one; ' +
      'repeating it delivers once more. hubctl webhooks redelivery says how far it has got.',
    changes:
      'The receiver gets the events again, in batches of their own. They count neither as failures nor as successes of the subscription.',
    examples: [
      {
        command:
          'hubctl webhooks redeliver we_01m7yt89qhe54swwc8wkxj6n8e --from 2026-11-20T08:00Z --until 2026-11-20T12:00Z',
      },
    ],
    needs: database,
  },
  {
    subscription: endpointArgument,
    from: timestampFlag('from', 'Events recorded at this moment or later'),
    until: timestampFlag('until', 'and before this one (default: now)').pipe(Flag.optional),
  },
  Effect.fnUntraced(function* ({ from, subscription, until }) {
    const before = Option.getOrElse(until, () => Number.MAX_SAFE_INTEGER)
    const end = Math.min(before, yield* Clock.currentTimeMillis)
    const period = { from: toTimestamp(from), until: toTimestamp(end) }
    yield* confirm(
      `Deliver the events from ${period.from} until ${period.until} to ${subscription.id} once more?`,
    )
    const id = yield* audited(
      { command: 'webhooks redeliver', arguments: { subscription: subscription.id, ...period } },
      requestRedelivery({ subscription: subscription.id, from, until: end }).pipe(
        Effect.catchTag('RedeliveryRefused', ({ reason }) =>
          Effect.fail(
            reason === 'subscription_unknown'
              ? unknown(subscription)
              : refused('period_empty', 'The period ends before it begins.'),
          ),
        ),
      ),
      (redelivery) => ({ redelivery }),
    )
    yield* show({ id, object: 'redelivery', subscription: subscription.id, ...period }, () =>
      fields({
        redelivery: id,
        subscription: subscription.id,
        ...period,
        next: `hubctl webhooks redelivery ${id}`,
      }),
    )
  }),
)

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u

const redelivery = defineCommand(
  'redelivery',
  {
    short: 'How far a redelivery has got',
    about:
      'Shows how many events of a redelivery were queued, and how many batches still wait. The queue of a disabled subscription stands still.',
    changes: NOTHING,
    examples: [{ command: 'hubctl webhooks redelivery 0199c4de-6f0a-4d1e-9a65-3f1f5f7a2b11' }],
    needs: database,
  },
  {
    id: Argument.String('id').pipe(
      Argument.withDescription('As hubctl webhooks redeliver has shown it'),
      Argument.filter(
        (id) => UUID.test(id),
        () => 'a UUID',
      ),
    ),
  },
  Effect.fnUntraced(function* ({ id }) {
    const found = yield* readRedelivery(id)
    if (found === null) return yield* refused('redelivery_not_found', `There is no redelivery ${id}.`)
    yield* show(
      {
        id,
        object: 'redelivery',
        events: found.events,
        batches: found.batches,
        pending: found.pending,
        queued_at: found.finishedAt === null ? null : toTimestamp(found.finishedAt),
      },
      (value) =>
        fields({
          redelivery: id,
          'events queued': value.events,
          batches: value.batches,
          'batches that wait': value.pending,
          'all queued': value.queued_at ?? 'not yet',
        }),
    )
  }),
)

export const webhooks = defineGroup(
  'webhooks',
  {
    short: 'Webhook subscriptions: enable, deliver again',
    about:
      'Webhook subscriptions belong to the accounts, which manage them over the API. Here is what the people who run the hub do for them.',
  },
  [list, enable, redeliver, redelivery],
)
