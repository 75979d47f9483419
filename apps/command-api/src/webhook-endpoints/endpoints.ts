/**
 * Webhook subscriptions: creation and reading. Source: specification, Webhook subscription endpoints; contract,
 * Webhook subscription.
 */
import { randomBytes } from 'node:crypto'
import {
  type ApiError,
  apiError,
  MAX_WEBHOOK_ENDPOINTS,
  type Page,
  type WebhookEndpoint,
  type WebhookEndpointToCreate,
  type WebhookEndpointWithSecret,
} from '@hub/contract'
import { decodeId, encodeId, type EventType, type SubscriptionStatus, toTimestamp } from '@hub/domain'
import { EventLog, subscriptionChangedRecord, type TopicNames } from '@hub/kafka'
import { Sql, type StorageError, Vault } from '@hub/store'
import { AddressPolicy } from '@hub/webhooks'
import { Clock, Context, Duration, Effect, Layer, Schedule } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { MakeId } from '../ids.ts'
import { type Found, foundIn } from '../page.ts'

/** 32 random bytes: as long as the digest of the HMAC that they key. */
const SECRET_BYTES = 32

const DEADLINE = { deadline: Duration.millis(1200) }
/** What the announcement may take. With the insert before it and the removal after it, a client is answered within 3 s. */
const ANNOUNCE_DEADLINE_MS = 1000
/** A creation that could not be announced is taken back, tried so often. */
const UNDO_TRIES = 3

interface EndpointRow {
  readonly id: string
  readonly url: string
  readonly event_types: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly created_at: Date
  readonly disabled_at: Date | null
  readonly disabled_reason: string | null
  readonly consecutive_failures: number
  readonly secret_rotation_ends_at: Date | null
}

const timestampOf = (at: Date | null): string | null => (at === null ? null : toTimestamp(at.getTime()))

const endpointBody = (row: EndpointRow): WebhookEndpoint => ({
  id: encodeId('we', row.id),
  object: 'webhook_endpoint',
  url: row.url,
  event_types: row.event_types,
  status: row.status,
  created_at: toTimestamp(row.created_at.getTime()),
  disabled_at: timestampOf(row.disabled_at),
  disabled_reason: row.disabled_reason,
  consecutive_failures: row.consecutive_failures,
  secret_rotation_ends_at: timestampOf(row.secret_rotation_ends_at),
})

export interface WebhookEndpointsOptions {
  readonly topics: TopicNames
  readonly makeEndpointId: MakeId
}

export class WebhookEndpoints extends Context.Service<
  WebhookEndpoints,
  {
    /** Fails with `webhook_url_invalid`, `webhook_endpoint_limit_reached`, or `internal_error` while the bus is down. */
    readonly create: (
      owner: Owner,
      wanted: WebhookEndpointToCreate,
    ) => Effect.Effect<WebhookEndpointWithSecret, ApiError | StorageError>
    readonly read: (owner: Owner, id: string) => Effect.Effect<WebhookEndpoint | null, StorageError>
    /** Newest first; `null` when `startingAfter` names none of the owner's. */
    readonly page: (owner: Owner, page: Page) => Effect.Effect<Found<WebhookEndpoint> | null, StorageError>
  }
>()('@hub/command-api/WebhookEndpoints') {
  static readonly layer = (
    options: WebhookEndpointsOptions,
  ): Layer.Layer<WebhookEndpoints, never, Sql | Vault | EventLog | AddressPolicy> =>
    Layer.effect(WebhookEndpoints, make(options))
}

const make = Effect.fnUntraced(function* (options: WebhookEndpointsOptions) {
  const sql = yield* Sql
  const vault = yield* Vault
  const log = yield* EventLog
  const policy = yield* AddressPolicy

  /**
   * The row, unless the account has as many as it may have. Creations of one account and mode are made to follow
   * each other, or two at once would both see room for one.
   */
  const insert = (owner: Owner, uuid: string, wanted: WebhookEndpointToCreate, secret: Buffer) =>
    sql.transaction(async (q) => {
      await q`SELECT pg_advisory_xact_lock(hashtextextended(${`webhook_endpoints ${owner.accountUuid} ${owner.mode}`}, 0))`
      const [row] = await q<EndpointRow[]>`
        INSERT INTO webhooks.endpoints (id, account, mode, url, event_types, secret)
        SELECT ${uuid}, ${owner.accountUuid}, ${owner.mode}::command.mode, ${wanted.url}, ${[...wanted.eventTypes]}::text[], ${secret}
         WHERE (SELECT count(*) FROM webhooks.endpoints
                 WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}) < ${MAX_WEBHOOK_ENDPOINTS}
        RETURNING id, url, event_types, status, created_at, disabled_at, disabled_reason, consecutive_failures,
                  secret_rotation_ends_at`
      return row ?? null
    }, DEADLINE)

  /** Nobody has the secret, so the subscription must not stay. Whoever reads its announcement finds nothing. */
  const undo = (uuid: string) =>
    sql
      .run((q) => q`DELETE FROM webhooks.endpoints WHERE id = ${uuid}`, { deadline: Duration.millis(500) })
      .pipe(
        Effect.retry({ times: UNDO_TRIES - 1, schedule: Schedule.spaced('50 millis') }),
        Effect.catch((error) =>
          Effect.logError('a subscription that was not announced could not be removed').pipe(
            Effect.annotateLogs({ subscription: encodeId('we', uuid), error: error._tag }),
          ),
        ),
      )

  /** Tells the fan-out. What it does not confirm is taken back. */
  const announce = (owner: Owner, id: string, uuid: string, at: number) =>
    log
      .append(
        [
          subscriptionChangedRecord(options.topics, {
            type: 'SubscriptionChanged',
            account: owner.account,
            mode: owner.mode,
            subscription: id,
            change: 'created',
            at,
          }),
        ],
        { deadlineMs: ANNOUNCE_DEADLINE_MS },
      )
      .pipe(
        Effect.catch((error) =>
          Effect.logWarning('a subscription could not be announced').pipe(
            Effect.annotateLogs({ reason: error.reason, detail: error.detail }),
            Effect.andThen(undo(uuid)),
            Effect.andThen(Effect.fail(apiError('internal_error', { retryAfter: 5 }))),
          ),
        ),
      )

  return WebhookEndpoints.of({
    create: Effect.fnUntraced(function* (owner, wanted) {
      yield* policy
        .checkUrl(wanted.url)
        .pipe(Effect.mapError((refused) => apiError('webhook_url_invalid', { message: refused.message })))
      const id = options.makeEndpointId(yield* Clock.currentTimeMillis)
      const uuid = decodeId('we', id) ?? ''
      const secret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
      // A client that hangs up between the row and its announcement must not leave half a subscription.
      const row = yield* Effect.uninterruptible(
        insert(owner, uuid, wanted, vault.seal('webhook-secret', id, Buffer.from(secret))).pipe(
          // Events of the account are on the same partition: what is recorded from here on reaches the subscription.
          Effect.tap((made) =>
            made === null ? Effect.void : announce(owner, id, uuid, made.created_at.getTime()),
          ),
        ),
      )
      if (row === null) return yield* apiError('webhook_endpoint_limit_reached')
      return { ...endpointBody(row), secret }
    }),

    read: Effect.fnUntraced(function* (owner, id) {
      const uuid = decodeId('we', id)
      if (uuid === null) return null
      const [row] = yield* sql.run(
        (q) => q<EndpointRow[]>`
          SELECT id, url, event_types, status, created_at, disabled_at, disabled_reason, consecutive_failures,
                 secret_rotation_ends_at
            FROM webhooks.endpoints WHERE id = ${uuid} AND account = ${owner.accountUuid} AND mode = ${owner.mode}`,
        DEADLINE,
      )
      return row === undefined ? null : endpointBody(row)
    }),

    page: Effect.fnUntraced(function* (owner, { limit, startingAfter }) {
      const rows = yield* sql.run(
        (q) => q<EndpointRow[]>`
          SELECT id, url, event_types, status, created_at, disabled_at, disabled_reason, consecutive_failures,
                 secret_rotation_ends_at
            FROM webhooks.endpoints WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}
           ORDER BY id DESC`,
        DEADLINE,
      )
      // There are at most twenty, so the page is cut here.
      let from = 0
      if (startingAfter !== null) {
        const index = rows.findIndex((row) => encodeId('we', row.id) === startingAfter)
        if (index < 0) return null
        from = index + 1
      }
      return foundIn(rows.slice(from), limit, endpointBody)
    }),
  })
})
