/** Webhook subscriptions of all accounts: their health and backlog, and how to enable one. */
import { settings } from '@hub/config'
import {
  clientCertificateObject,
  encodeId,
  EVENT_TYPES,
  MODES,
  SUBSCRIPTION_STATUSES,
  toTimestamp,
} from '@hub/domain'
import { encodeOutboxRow, subscriptionChangedRecord, topicNames } from '@hub/kafka'
import { CommandOutbox, type Queries, Sql, uuidOf, WebhooksBatches, WebhooksEndpoints } from '@hub/store'
import { enableSubscription, type EnableResult } from '@hub/webhooks'
import { Clock, Effect, Schema } from 'effect'
import { refused } from '../failures.ts'
import { addedField, Mode, optionalTimestamp, publicId, Timestamp } from '../fields.ts'
import { decodeRowCursor, listOf, pageFields, pageOf, rowKey } from '../pages.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'

const Backlog = Schema.Struct({
  batches: Schema.Int.annotate({
    description: `Webhook batches that wait. ${WebhooksBatches.MOST_COUNTED} means: at least so many.`,
  }),
  oldest_at: Schema.NullOr(Timestamp).annotate({ description: 'When the first of them was queued.' }),
  next_attempt_at: Schema.NullOr(Timestamp),
})

export const WebhookEndpoint = Schema.Struct({
  id: publicId('we'),
  object: Schema.Literal('webhook_endpoint'),
  account: publicId('acc'),
  mode: Schema.Literals(MODES),
  url: Schema.String,
  event_types: Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({ description: 'Empty: all types.' }),
  status: Schema.Literals(SUBSCRIPTION_STATUSES),
  consecutive_failures: Schema.Int,
  disabled_at: Schema.NullOr(Timestamp),
  disabled_reason: Schema.NullOr(Schema.String),
  backlog: Backlog,
  header_names: addedField(
    Schema.Array(Schema.String).annotate({
      description: 'The names of its static headers. The values are not shown to anybody.',
    }),
    [],
  ),
  client_certificate: addedField(
    Schema.NullOr(Schema.Struct({ fingerprint_sha256: Schema.String, not_after: Timestamp })).annotate({
      description: 'The client certificate for mutual TLS; `null` without one.',
    }),
    null,
  ),
  created_at: Timestamp,
}).annotate({ identifier: 'WebhookEndpoint' })
export type WebhookEndpoint = typeof WebhookEndpoint.Type

const toValue =
  (backlogs: ReadonlyMap<string, WebhooksBatches.Backlog>) =>
  (row: WebhooksEndpoints.OwnedSubscriptionRow): WebhookEndpoint => {
    const backlog = backlogs.get(row.id)
    return {
      id: encodeId('we', row.id),
      object: 'webhook_endpoint',
      account: encodeId('acc', row.account),
      mode: row.mode,
      url: row.url,
      event_types: row.event_types,
      status: row.status,
      consecutive_failures: row.consecutive_failures,
      disabled_at: optionalTimestamp(row.disabled_at?.getTime() ?? null),
      disabled_reason: row.disabled_reason,
      backlog: {
        batches: backlog?.batches ?? 0,
        oldest_at: optionalTimestamp(backlog?.oldest_at?.getTime() ?? null),
        next_attempt_at: optionalTimestamp(backlog?.next_attempt_at?.getTime() ?? null),
      },
      header_names: row.header_names,
      client_certificate: clientCertificateObject(WebhooksEndpoints.clientCertificateOf(row)),
      created_at: toTimestamp(row.created_at.getTime()),
    }
  }

/** Reads the backlogs of these subscriptions, and returns how to show each. */
export const withBacklogs = async (
  q: Queries,
  rows: ReadonlyArray<WebhooksEndpoints.OwnedSubscriptionRow>,
) => {
  const backlogs = await WebhooksBatches.readBacklogs(
    q,
    rows.map(({ id }) => id),
  )
  return toValue(new Map(backlogs.map((backlog) => [backlog.subscriptionId, backlog])))
}

export const list = defineUseCase({
  name: 'webhooks list',
  permission: 'webhooks.read',
  members: 'named',
  input: Schema.Struct({
    account: Schema.NullOr(publicId('acc')),
    mode: Schema.NullOr(Mode),
    status: Schema.NullOr(Schema.Literals(SUBSCRIPTION_STATUSES)),
    ...pageFields,
  }),
  output: listOf(WebhookEndpoint),
  audit: null,
  run: ({ account, cursor, limit, mode, status }) =>
    Effect.gen(function* () {
      const after = yield* decodeRowCursor(cursor)
      return yield* query(async (q) => {
        const rows = await WebhooksEndpoints.readNewest(q, {
          account: account === null ? null : uuidOf('acc', account),
          mode,
          status,
          limit: limit + 1,
          after,
        })
        const toShown = await withBacklogs(q, rows)
        return pageOf(rows, limit, toShown, rowKey)
      })
    }),
})

const notFound = (id: string) => refused('subscription_not_found', `There is no subscription ${id}.`, 'id')

const readOne = Effect.fnUntraced(function* (id: string) {
  const found = yield* query(async (q) => {
    const row = await WebhooksEndpoints.readOwned(q, uuidOf('we', id))
    return row === null ? null : (await withBacklogs(q, [row]))(row)
  })
  return found ?? (yield* notFound(id))
})

export const get = defineUseCase({
  name: 'webhooks show',
  permission: 'webhooks.read',
  members: 'named',
  input: Schema.Struct({ id: publicId('we') }),
  output: WebhookEndpoint,
  audit: null,
  run: ({ id }) => readOne(id),
})

/** Enables a subscription that failures disabled. command-api relays the record of the change. */
export const enable = defineUseCase({
  name: 'webhooks enable',
  permission: 'webhooks.change',
  members: 'named',
  input: Schema.Struct({ id: publicId('we') }),
  output: Schema.Struct({
    id: publicId('we'),
    object: Schema.Literal('webhook_endpoint'),
    status: Schema.Literal('enabled'),
    changed: Schema.Boolean.annotate({ description: 'False: it was enabled before.' }),
  }),
  audit: ({ id }) => ({ subscription: id }),
  result: ({ changed }) => ({ outcome: changed ? 'enabled' : 'unchanged' }),
  run: ({ id }) =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const topics = topicNames(yield* settings.topicPrefix.config)
      const now = yield* Clock.currentTimeMillis
      const uuid = uuidOf('we', id)
      const outcome = yield* sql.transaction(async (q): Promise<EnableResult> => {
        const enabled = await enableSubscription(q, uuid)
        if (enabled !== 'enabled') return enabled
        const owner = await WebhooksEndpoints.readOwner(q, uuid)
        if (owner === null) return 'unknown'
        const record = subscriptionChangedRecord(topics, {
          type: 'SubscriptionChanged',
          account: encodeId('acc', owner.account),
          mode: owner.mode,
          subscription: id,
          change: 'enabled',
          at: now,
        })
        await CommandOutbox.insert(q, encodeOutboxRow([record]))
        return enabled
      })
      if (outcome === 'unknown') return yield* notFound(id)
      return {
        id,
        object: 'webhook_endpoint' as const,
        status: 'enabled' as const,
        changed: outcome === 'enabled',
      }
    }),
})
