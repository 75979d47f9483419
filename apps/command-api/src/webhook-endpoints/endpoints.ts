/**
 * Webhook subscriptions: what clients do with theirs. Source: specification, Webhook subscription endpoints; contract,
 * Webhook subscription.
 */
import { randomBytes } from 'node:crypto'
import {
  type ApiError,
  apiError,
  type DeletedWebhookEndpoint,
  MAX_WEBHOOK_ENDPOINTS,
  type Page,
  type WebhookDelivery,
  type WebhookEndpoint,
  type WebhookEndpointToCreate,
  type WebhookEndpointWithSecret,
} from '@hub/contract'
import {
  decodeId,
  encodeId,
  type EventType,
  SECRET_ROTATION_MS,
  subscriptionObject,
  type SubscriptionStatus,
} from '@hub/domain'
import { EventLog, subscriptionChangedRecord, type TopicNames } from '@hub/kafka'
import { type Queries, Sql, type StorageError, MasterKeyEncryption } from '@hub/store'
import { AddressPolicy, enableEndpoint } from '@hub/webhooks'
import { Clock, Context, Duration, Effect, Layer, Schedule } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { MakeId } from '../ids.ts'
import { type Found, foundIn } from '../paging/page.ts'
import { makeInForce, tell } from './changes.ts'
import { pageDeliveries } from './deliveries.ts'
import { makeTrials } from './trial.ts'

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

const columns = (q: Queries) => q`
  id, url, event_types, status, created_at, disabled_at, disabled_reason, consecutive_failures, secret_rotation_ends_at`

const endpointBody = (row: EndpointRow, now: number): WebhookEndpoint =>
  subscriptionObject(
    {
      id: encodeId('we', row.id),
      url: row.url,
      eventTypes: row.event_types,
      status: row.status,
      createdAt: row.created_at.getTime(),
      disabledAt: row.disabled_at?.getTime() ?? null,
      disabledReason: row.disabled_reason,
      consecutiveFailures: row.consecutive_failures,
      rotationEndsAt: row.secret_rotation_ends_at?.getTime() ?? null,
    },
    now,
  )

const newSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`

export interface WebhookEndpointsOptions {
  readonly topics: TopicNames
  readonly makeEndpointId: MakeId
  readonly makeAttemptId: MakeId
}

export class WebhookEndpoints extends Context.Service<
  WebhookEndpoints,
  {
    /** Fails with `webhook_url_invalid`, `webhook_endpoint_limit_reached`, or `internal_error` while Kafka is down. */
    readonly create: (
      owner: Owner,
      wanted: WebhookEndpointToCreate,
    ) => Effect.Effect<WebhookEndpointWithSecret, ApiError | StorageError>
    readonly read: (owner: Owner, id: string) => Effect.Effect<WebhookEndpoint | null, StorageError>
    /** Newest first; `null` when `startingAfter` names none of the owner's. */
    readonly page: (owner: Owner, page: Page) => Effect.Effect<Found<WebhookEndpoint> | null, StorageError>
    /** All that follow answer `null` for what is not the owner's. Changes are answered once they are in force, or nearly. */
    readonly remove: (owner: Owner, id: string) => Effect.Effect<DeletedWebhookEndpoint | null, StorageError>
    readonly rotateSecret: (
      owner: Owner,
      id: string,
    ) => Effect.Effect<WebhookEndpointWithSecret | null, StorageError>
    readonly enable: (owner: Owner, id: string) => Effect.Effect<WebhookEndpoint | null, StorageError>
    /** Fails as `Trials.make` does. */
    readonly trial: (
      owner: Owner,
      id: string,
    ) => Effect.Effect<WebhookDelivery | null, ApiError | StorageError>
    /** Newest first; `null` also when `startingAfter` names none of the subscription's. */
    readonly deliveries: (
      owner: Owner,
      id: string,
      page: Page,
    ) => Effect.Effect<Found<WebhookDelivery> | null, StorageError>
  }
>()('@hub/command-api/WebhookEndpoints') {
  static readonly layer = (
    options: WebhookEndpointsOptions,
  ): Layer.Layer<WebhookEndpoints, never, Sql | MasterKeyEncryption | EventLog | AddressPolicy> =>
    Layer.effect(WebhookEndpoints, make(options))
}

const make = Effect.fnUntraced(function* (options: WebhookEndpointsOptions) {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  const log = yield* EventLog
  const policy = yield* AddressPolicy
  const inForce = yield* makeInForce
  const trials = yield* makeTrials(options.makeAttemptId)

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
                 WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND deleted_at IS NULL)
               < ${MAX_WEBHOOK_ENDPOINTS}
        RETURNING ${columns(q)}`
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

  /** The rows that are the owner's, and stand. */
  const owned = (q: Queries, owner: Owner) =>
    q`account = ${owner.accountUuid} AND mode = ${owner.mode} AND deleted_at IS NULL`

  /** Looks a subscription up by its public id. */
  const find = Effect.fnUntraced(function* (owner: Owner, id: string) {
    const uuid = decodeId('we', id)
    if (uuid === null) return null
    const [row] = yield* sql.run(
      (q) => q<EndpointRow[]>`
        SELECT ${columns(q)} FROM webhooks.endpoints WHERE id = ${uuid} AND ${owned(q, owner)}`,
      DEADLINE,
    )
    return row ?? null
  })

  /**
   * Changes a subscription and tells the fan-out. `change` answers the row as it is then, or `null` where there is none. A client
   * that hangs up ends neither.
   */
  const changed = Effect.fnUntraced(function* (
    owner: Owner,
    id: string,
    what: 'deleted' | 'secret_rotated' | 'enabled',
    change: (q: Queries, uuid: string, now: number) => Promise<EndpointRow | null>,
  ) {
    const uuid = decodeId('we', id)
    if (uuid === null) return null
    const now = yield* Clock.currentTimeMillis
    const done = yield* sql.transaction(async (q) => {
      const row = await change(q, uuid, now)
      return row === null
        ? null
        : { row, told: await tell(q, options.topics, owner, { subscription: id, change: what, at: now }) }
    }, DEADLINE)
    if (done === null) return null
    yield* inForce(done.told)
    return done.row
  }, Effect.uninterruptible)

  return WebhookEndpoints.of({
    create: Effect.fnUntraced(function* (owner, wanted) {
      yield* policy
        .checkUrl(wanted.url)
        .pipe(Effect.mapError((refused) => apiError('webhook_url_invalid', { message: refused.message })))
      const id = options.makeEndpointId(yield* Clock.currentTimeMillis)
      const uuid = decodeId('we', id) ?? ''
      const secret = newSecret()
      // A client that hangs up between the row and its announcement must not leave half a subscription.
      const row = yield* Effect.uninterruptible(
        insert(owner, uuid, wanted, masterKey.encrypt('webhook-secret', id, Buffer.from(secret))).pipe(
          // Events of the account are on the same partition: what is recorded from here on reaches the subscription.
          Effect.tap((made) =>
            made === null ? Effect.void : announce(owner, id, uuid, made.created_at.getTime()),
          ),
        ),
      )
      if (row === null) return yield* apiError('webhook_endpoint_limit_reached')
      return { ...endpointBody(row, row.created_at.getTime()), secret }
    }),

    read: Effect.fnUntraced(function* (owner, id) {
      const row = yield* find(owner, id)
      return row === null ? null : endpointBody(row, yield* Clock.currentTimeMillis)
    }),

    page: Effect.fnUntraced(function* (owner, { limit, startingAfter }) {
      const rows = yield* sql.run(
        (q) => q<EndpointRow[]>`
          SELECT ${columns(q)} FROM webhooks.endpoints WHERE ${owned(q, owner)} ORDER BY id DESC`,
        DEADLINE,
      )
      // There are at most twenty, so the page is cut here.
      let from = 0
      if (startingAfter !== null) {
        const index = rows.findIndex((row) => encodeId('we', row.id) === startingAfter)
        if (index < 0) return null
        from = index + 1
      }
      const now = yield* Clock.currentTimeMillis
      return foundIn(rows.slice(from), limit, (row) => endpointBody(row, now))
    }),

    remove: Effect.fnUntraced(function* (owner, id) {
      const row = yield* changed(owner, id, 'deleted', async (q, uuid) => {
        // What may hold secrets goes at once; what there is much of, behind it.
        const [gone] = await q<EndpointRow[]>`
          UPDATE webhooks.endpoints
             SET deleted_at = now(), url = '', secret = ''::bytea, previous_secret = NULL, secret_rotation_ends_at = NULL
           WHERE id = ${uuid} AND ${owned(q, owner)}
          RETURNING ${columns(q)}`
        if (gone === undefined) return null
        await q`DELETE FROM webhooks.trials WHERE endpoint_id = ${uuid}`
        return gone
      })
      return row === null ? null : { id: encodeId('we', row.id), object: 'webhook_endpoint', deleted: true }
    }),

    rotateSecret: Effect.fnUntraced(function* (owner, id) {
      const secret = newSecret()
      const row = yield* changed(owner, id, 'secret_rotated', async (q, uuid, now) => {
        const [rotated] = await q<EndpointRow[]>`
          UPDATE webhooks.endpoints
             SET previous_secret = secret, secret = ${masterKey.encrypt('webhook-secret', encodeId('we', uuid), Buffer.from(secret))},
                 secret_rotation_ends_at = ${new Date(now + SECRET_ROTATION_MS)}
           WHERE id = ${uuid} AND ${owned(q, owner)}
          RETURNING ${columns(q)}`
        return rotated ?? null
      })
      return row === null ? null : { ...endpointBody(row, yield* Clock.currentTimeMillis), secret }
    }),

    enable: Effect.fnUntraced(function* (owner, id) {
      const row = yield* changed(owner, id, 'enabled', async (q, uuid) => {
        const [found] = await q<EndpointRow[]>`
          SELECT ${columns(q)} FROM webhooks.endpoints WHERE id = ${uuid} AND ${owned(q, owner)} FOR NO KEY UPDATE`
        if (found === undefined || (await enableEndpoint(q, uuid)) !== 'enabled') return null
        const [enabled] = await q<
          EndpointRow[]
        >`SELECT ${columns(q)} FROM webhooks.endpoints WHERE id = ${uuid}`
        return enabled ?? null
      })
      // Nothing was changed: it is enabled, or it is not the owner's.
      const standing = row ?? (yield* find(owner, id))
      return standing === null ? null : endpointBody(standing, yield* Clock.currentTimeMillis)
    }),

    trial: Effect.fnUntraced(function* (owner, id) {
      const row = yield* find(owner, id)
      return row === null ? null : yield* trials.make(row.id)
    }),

    deliveries: Effect.fnUntraced(function* (owner, id, page) {
      const row = yield* find(owner, id)
      return row === null ? null : yield* sql.run((q) => pageDeliveries(q, row.id, page), DEADLINE)
    }),
  })
})
