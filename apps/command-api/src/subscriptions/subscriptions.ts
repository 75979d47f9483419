/**
 * Webhook subscriptions: the commands and queries of clients. Source: SUB-1 to SUB-21, SUB-32 to SUB-38.
 */
import { randomBytes } from 'node:crypto'
import {
  ApiError,
  apiError,
  type DeletedWebhookEndpoint,
  type DeliveriesPage,
  MAX_WEBHOOK_ENDPOINTS,
  type Page,
  type WebhookEndpoint,
  type WebhookEndpointChanges,
  type WebhookEndpointToCreate,
} from '@hub/contract'
import { decodeId, encodeId, rotateSecrets, subscriptionObject } from '@hub/domain'
import type { SubscriptionChange, TopicNames } from '@hub/kafka'
import { deleteOutboxRows } from '@hub/outbox'
import {
  MasterKeyEncryption,
  type Queries,
  Sql,
  storageCrashPoint,
  transactionCrashPoint,
  WebhooksEndpoints,
  WebhooksResends,
  WebhooksTrials,
} from '@hub/store'
import {
  AddressPolicy,
  checkClientCertificate,
  ClientCertificateRefused,
  enableSubscription,
  encryptClientCertificate,
  encryptHeaders,
} from '@hub/webhooks'
import { Clock, Duration, Effect, Result, Schedule } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { freshId } from '../ids/ids.ts'
import { toResourcePage } from '../paging/page.ts'
import { enqueueChange, makeAwaitApplied, type OutboxEntry } from './changes.ts'
import { readDeliveries } from './deliveries.ts'
import * as Statements from './statements.ts'
import { makeDeliveriesOnDemand } from './on-demand.ts'

const atChanged = {
  created: storageCrashPoint('command-api.subscription-created'),
  updated: storageCrashPoint('command-api.subscription-updated'),
  secret_rotated: storageCrashPoint('command-api.secret-rotated'),
  enabled: storageCrashPoint('command-api.subscription-enabled'),
  deleted: storageCrashPoint('command-api.subscription-deleted'),
} as const satisfies Record<SubscriptionChange, unknown>
const atSecretWritten = transactionCrashPoint('command-api.secret-written')

/** 32 random bytes: as long as the HMAC-SHA-256 digest that they key. */
const SECRET_BYTES = 32

const ROLL_BACK_DEADLINE = { deadline: Duration.millis(500) }
const ROLL_BACK_TRIES = 3

const subscriptionBody = (row: Statements.SubscriptionRow, now: number): WebhookEndpoint =>
  subscriptionObject(WebhooksEndpoints.toView(row), now)

const newSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`

interface SubscriptionsOptions {
  readonly topics: TopicNames
  /** A replaced secret signs for this time. */
  readonly secretTransition: Duration.Duration
}

export const makeSubscriptions = Effect.fnUntraced(function* (options: SubscriptionsOptions) {
  const { secretTransition, topics } = options
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  const policy = yield* AddressPolicy
  const awaitApplied = yield* makeAwaitApplied
  const onDemand = yield* makeDeliveriesOnDemand

  const encryptSecret = (id: string, secret: string): Buffer =>
    masterKey.encrypt('webhook-secret', id, Buffer.from(secret))

  /** A subscription of the owner by its public id. */
  const find = Effect.fnUntraced(function* (owner: Owner, id: string) {
    const uuid = decodeId('we', id)
    return uuid === null ? null : yield* sql.run((q) => Statements.find(q, owner, uuid), STATEMENT_DEADLINE)
  })

  /**
   * Runs a change through the protocol of `changes.ts`. `write` changes the row in the transaction
   * and returns it, `null` where nothing is to be changed, or an error. `whenUnpublished` runs when Kafka did
   * not acknowledge the fact. A client that disconnects interrupts nothing.
   */
  const change = Effect.fnUntraced(function* <E = never>(
    owner: Owner,
    id: string,
    kind: SubscriptionChange,
    startedAt: number,
    write: (q: Queries, uuid: string) => Promise<Statements.SubscriptionRow | ApiError | null>,
    whenUnpublished: (entry: OutboxEntry, uuid: string) => Effect.Effect<void, E> = () => Effect.void,
  ) {
    const uuid = decodeId('we', id)
    if (uuid === null) return null
    const changing = sql.transaction(async (q) => {
      const row = await write(q, uuid)
      if (row === null || row instanceof ApiError) return row
      const at = kind === 'created' ? row.created_at.getTime() : startedAt
      return {
        row,
        entry: await enqueueChange(q, topics, owner, { subscription: id, change: kind, at }),
      }
    }, STATEMENT_DEADLINE)
    const done = yield* atChanged[kind](changing)
    if (done === null) return null
    if (done instanceof ApiError) return yield* done
    if (!(yield* awaitApplied(done.entry, startedAt))) yield* whenUnpublished(done.entry, uuid)
    return done.row
  }, Effect.uninterruptible)

  const checkUrl = (url: string) =>
    policy
      .checkUrl(url)
      .pipe(Effect.mapError((refused) => apiError('webhook_url_invalid', { message: refused.message })))

  const storedHeaders = (
    id: string,
    headers: WebhookEndpointToCreate['headers'],
  ): Statements.StoredCredentials['headers'] => ({
    names: headers.map(([name]) => name),
    encrypted: headers.length === 0 ? null : encryptHeaders(masterKey, id, headers),
  })

  /** Fails with `invalid_parameter` for a certificate or a key that cannot be used at `now`. */
  const storedCertificate = (
    id: string,
    given: WebhookEndpointToCreate['clientCertificate'],
    now: number,
  ): Effect.Effect<Statements.StoredCredentials['clientCertificate'], ApiError> => {
    if (given === null) return Effect.succeed(null)
    const facts = checkClientCertificate(given, now)
    return facts instanceof ClientCertificateRefused
      ? Effect.fail(
          apiError('invalid_parameter', {
            param: `client_certificate.${facts.field}`,
            message: facts.message,
          }),
        )
      : Effect.succeed({ encrypted: encryptClientCertificate(masterKey, id, given), ...facts })
  }

  /**
   * Rolls a creation back: its client never sees the secret, so the subscription must not remain.
   * If Kafka stored the fact nevertheless, the fan-out finds no row and ignores it.
   */
  const rollBack = (id: string, uuid: string, entry: OutboxEntry): Effect.Effect<void> =>
    sql
      .transaction(async (q) => {
        await deleteOutboxRows(q, 'command.outbox', [Number(entry.id)])
        await Statements.remove(q, uuid)
      }, ROLL_BACK_DEADLINE)
      .pipe(
        Effect.retry({ times: ROLL_BACK_TRIES - 1, schedule: Schedule.spaced('50 millis') }),
        Effect.catch((error) =>
          Effect.logError(
            'webhook endpoints: a failed creation could not be rolled back; the relay will announce the subscription',
          ).pipe(Effect.annotateLogs({ subscription: id, error: error._tag })),
        ),
      )

  // A function with an id returns `null` for a subscription of another owner or of nobody. Changes
  // also succeed while Kafka is unavailable: they take effect when it is back.
  return {
    /**
     * Fails with `invalid_parameter` for a bad client certificate, with `webhook_url_invalid` or
     * `webhook_endpoint_limit_reached`, and with `internal_error` while Kafka is unavailable: then nothing is created.
     */
    create: Effect.fnUntraced(function* (owner: Owner, wanted: WebhookEndpointToCreate) {
      const startedAt = yield* Clock.currentTimeMillis
      const id = freshId('we', startedAt)
      const clientCertificate = yield* storedCertificate(id, wanted.clientCertificate, startedAt)
      yield* checkUrl(wanted.url)
      const secret = newSecret()
      const row = yield* change(
        owner,
        id,
        'created',
        startedAt,
        (q, uuid) =>
          Statements.insert(
            q,
            owner,
            {
              ...wanted,
              id: uuid,
              secret: encryptSecret(id, secret),
              headers: storedHeaders(id, wanted.headers),
              clientCertificate,
            },
            MAX_WEBHOOK_ENDPOINTS,
          ),
        (entry, uuid) =>
          Effect.andThen(
            rollBack(id, uuid, entry),
            Effect.fail(
              apiError('internal_error', {
                retryAfter: 5,
                reason: 'Kafka did not acknowledge the subscription',
              }),
            ),
          ),
      )
      if (row === null) return yield* apiError('webhook_endpoint_limit_reached')
      return { ...subscriptionBody(row, row.created_at.getTime()), secret }
    }),

    read: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const row = yield* find(owner, id)
      return row === null ? null : subscriptionBody(row, yield* Clock.currentTimeMillis)
    }),

    /** Newest first; `null` when `startingAfter` names no subscription of the owner. */
    page: Effect.fnUntraced(function* (owner: Owner, { limit, startingAfter }: Page) {
      // An owner has at most twenty subscriptions, so reading all of them is cheap.
      const rows = yield* sql.run((q) => Statements.findAll(q, owner), STATEMENT_DEADLINE)
      let from = 0
      if (startingAfter !== null) {
        const index = rows.findIndex((row) => encodeId('we', row.id) === startingAfter)
        if (index < 0) return null
        from = index + 1
      }
      const now = yield* Clock.currentTimeMillis
      return toResourcePage(rows.slice(from), limit, (row) => subscriptionBody(row, now))
    }),

    remove: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const now = yield* Clock.currentTimeMillis
      const row = yield* change(owner, id, 'deleted', now, async (q, uuid) => {
        const deleted = await Statements.markDeleted(q, owner, uuid)
        if (deleted !== null) {
          await WebhooksTrials.removeOf(q, uuid)
          await WebhooksResends.removeOf(q, uuid)
        }
        return deleted
      })
      return row === null
        ? null
        : ({
            id: encodeId('we', row.id),
            object: 'webhook_endpoint',
            deleted: true,
          } satisfies DeletedWebhookEndpoint)
    }),

    /** Changes a subscription. Fails with `invalid_parameter` for a bad client certificate, or `webhook_url_invalid`. */
    update: Effect.fnUntraced(function* (owner: Owner, id: string, changes: WebhookEndpointChanges) {
      const { clientCertificate: certificate, headers, ...others } = changes
      const now = yield* Clock.currentTimeMillis
      const stored = {
        ...others,
        ...(headers === undefined ? undefined : { headers: storedHeaders(id, headers) }),
        ...(certificate === undefined
          ? undefined
          : { clientCertificate: yield* storedCertificate(id, certificate, now) }),
      }
      if (changes.url !== undefined) yield* checkUrl(changes.url)
      const row =
        Object.keys(changes).length === 0
          ? yield* find(owner, id)
          : yield* change(owner, id, 'updated', now, (q, uuid) => Statements.update(q, owner, uuid, stored))
      return row === null ? null : subscriptionBody(row, yield* Clock.currentTimeMillis)
    }),

    /** Fails with `rotation_in_progress`. */
    rotateSecret: Effect.fnUntraced(function* (owner: Owner, id: string, expirePrevious: boolean) {
      const now = yield* Clock.currentTimeMillis
      const secret = newSecret()
      const row = yield* change(owner, id, 'secret_rotated', now, async (q, uuid) => {
        const secrets = await Statements.lockSecrets(q, owner, uuid)
        if (secrets === null) return null
        const rotated = rotateSecrets(secrets, {
          next: encryptSecret(encodeId('we', uuid), secret),
          at: now,
          transitionMs: Duration.toMillis(secretTransition),
          expirePrevious,
        })
        if (Result.isFailure(rotated)) {
          return apiError('rotation_in_progress', { retryAfter: (rotated.failure.possibleAt - now) / 1000 })
        }
        const row = await Statements.writeSecrets(q, uuid, rotated.success)
        atSecretWritten()
        return row
      })
      return row === null ? null : { ...subscriptionBody(row, yield* Clock.currentTimeMillis), secret }
    }),

    enable: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const now = yield* Clock.currentTimeMillis
      const enabled = yield* change(owner, id, 'enabled', now, async (q, uuid) => {
        const locked = await Statements.lock(q, owner, uuid)
        return locked && (await enableSubscription(q, uuid)) === 'enabled'
          ? Statements.find(q, owner, uuid)
          : null
      })
      // Nothing changed: the subscription was enabled before, or the owner has none of this id.
      const row = enabled ?? (yield* find(owner, id))
      return row === null ? null : subscriptionBody(row, yield* Clock.currentTimeMillis)
    }),

    /** Fails like `makeDeliveriesOnDemand`. */
    test: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const row = yield* find(owner, id)
      return row === null ? null : yield* onDemand.test(row.id)
    }),

    /** Sends the batch of an attempt (`whd_…`) again. Fails like `makeDeliveriesOnDemand`. */
    resend: Effect.fnUntraced(function* (owner: Owner, id: string, attempt: string) {
      const row = yield* find(owner, id)
      const uuid = decodeId('whd', attempt)
      return row === null || uuid === null ? null : yield* onDemand.resend(row.id, uuid)
    }),

    /** Newest first; `null` also when `startingAfter` names no attempt of the subscription. */
    deliveries: Effect.fnUntraced(function* (owner: Owner, id: string, page: DeliveriesPage) {
      const row = yield* find(owner, id)
      return row === null ? null : yield* sql.run((q) => readDeliveries(q, row.id, page), STATEMENT_DEADLINE)
    }),
  }
})
