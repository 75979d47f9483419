/** The store on PostgreSQL: composes the statements of the tables and decrypts secrets. */
import { type DisabledPeriods, encodeId, envelopeOf, eventBatchId, testDeliveryEvent } from '@hub/domain'
import {
  type DecryptionFailed,
  MasterKeyEncryption,
  type Queries,
  ReadEvents,
  Sql,
  type StorageUnavailable,
  uuidOf,
  WebhooksEndpoints,
} from '@hub/store'
import { decryptClientCertificate, decryptHeaders } from '@hub/webhooks'
import { Clock, Effect, Layer, Redacted } from 'effect'
import { FanoutSettings } from '../config.ts'
import { type Credentials, credentialsAt, type SubscriptionRecord } from '../subscriptions/subscription.ts'
import { insertOnDemandAttempt } from './attempts.ts'
import { insertBatchEvents, selectEventsOfBatch } from './batch-events.ts'
import { countBatches } from './batches.ts'
import { purgeDeleted } from './purge-deleted.ts'
import { selectBody, selectDue, selectExpired } from './due-batches.ts'
import {
  type DeliveryRow,
  lockUndeleted,
  selectSubscription,
  selectEndpointsOf,
  selectSources,
} from './subscriptions.ts'
import { acquirePosition } from './positions.ts'
import { recordOutcomes } from './record-outcomes.ts'
import { selectOpenRedeliveries } from './redeliveries.ts'
import { deleteResend, releaseResend, type TakenResendRow, takeResends } from './resends.ts'
import { bodyOf, storeBatches } from './store-batches.ts'
import { type DeliveryOnDemand, FanoutStore, type FanoutStoreShape, PartitionLost } from './store.port.ts'
import { toMs } from './times.ts'
import {
  deleteTestDelivery,
  hasOnDemand,
  releaseTestDelivery,
  type TakenRow,
  takeTestDeliveries,
} from './test-deliveries.ts'

/** A transaction changes at most some thousand rows; a database that takes longer is overloaded. */
const TRANSACTION_DEADLINE = '8 seconds'

/** Counting more batches would cost more than the metric is worth. */
const COUNT_LIMIT = 100_000

const disabledPeriodsOf = (row: DeliveryRow): DisabledPeriods => {
  const [from, until] = [toMs(row.last_disabled_at), toMs(row.last_enabled_at)]
  return {
    disabledAt: toMs(row.disabled_at),
    last: from === null || until === null ? null : { from, until },
  }
}

const makePostgresStore = Effect.gen(function* () {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  const settings = yield* FanoutSettings
  const transaction = <A>(body: (q: Queries) => Promise<A>) =>
    sql.transaction(body, { deadline: TRANSACTION_DEADLINE })
  /** Fails with `PartitionLost` where the transaction returned `null`. */
  const owned = <A>(partition: number, body: (q: Queries) => Promise<A | null>) =>
    transaction(body).pipe(
      Effect.flatMap((result) =>
        result === null ? Effect.fail(new PartitionLost({ partition })) : Effect.succeed(result),
      ),
    )

  /** `null`, and a line in the log: it cannot be decrypted. */
  const logged = <A>(id: string, decrypted: Effect.Effect<A, DecryptionFailed | StorageUnavailable>) =>
    Effect.catchTag(decrypted, 'DecryptionFailed', ({ purpose }) =>
      Effect.logError(
        'fan-out store: a secret of a subscription cannot be decrypted; without its current secret, its headers and its client certificate it gets no deliveries',
      ).pipe(Effect.annotateLogs({ subscription: id, purpose }), Effect.as(null)),
    )

  const decryptSecret = (id: string, encrypted: Buffer) =>
    logged(
      id,
      Effect.map(masterKey.decrypt('webhook-secret', id, encrypted), (plain) =>
        Redacted.make(plain.toString('utf8')),
      ),
    )

  /** `null`: no request can be made as the client wants it. */
  const decryptCredentials = Effect.fnUntraced(function* (
    id: string,
    row: WebhooksEndpoints.SecretColumns,
  ): Effect.fn.Return<Credentials | null, StorageUnavailable> {
    const { current, earlier } = WebhooksEndpoints.secretsOf(row)
    const earlierSecrets: Array<Credentials['earlierSecrets'][number]> = []
    for (const { secret, signsUntil } of earlier) {
      const decrypted = yield* decryptSecret(id, secret)
      if (decrypted !== null) earlierSecrets.push({ secret: decrypted, signsUntil })
    }
    const secret = yield* decryptSecret(id, current)
    const headers =
      row.headers === null ? null : yield* logged(id, decryptHeaders(masterKey, id, row.headers))
    const clientCertificate =
      row.client_certificate === null
        ? null
        : yield* logged(id, decryptClientCertificate(masterKey, id, row.client_certificate))
    const isComplete =
      (headers === null) === (row.headers === null) &&
      (clientCertificate === null) === (row.client_certificate === null)
    return secret !== null && isComplete ? { secret, earlierSecrets, headers, clientCertificate } : null
  })

  const toRecord = Effect.fnUntraced(function* (
    row: DeliveryRow,
  ): Effect.fn.Return<SubscriptionRecord, StorageUnavailable> {
    const id = encodeId('we', row.id)
    const queuedAt = toMs(row.queued_at)
    const expiresAt = queuedAt === null ? null : queuedAt + settings.retryWindowMs
    return {
      uuid: row.id,
      id,
      account: encodeId('acc', row.account),
      mode: row.mode,
      url: row.url,
      eventTypes: new Set(row.event_types),
      status: row.status,
      credentials: yield* decryptCredentials(id, row),
      consecutiveFailures: row.consecutive_failures,
      backlogReleasedAt: toMs(row.backlog_released_at),
      disabledByBatch: row.disabled_by_batch,
      disabledPeriods: disabledPeriodsOf(row),
      afterSequence: Number(row.after_sequence),
      nextDueAt: row.status === 'enabled' ? toMs(row.next_attempt_at) : expiresAt,
    }
  })

  const toTestDelivery = Effect.fnUntraced(function* (
    row: TakenRow,
    now: number,
  ): Effect.fn.Return<DeliveryOnDemand | null, StorageUnavailable> {
    const view = WebhooksEndpoints.toView(row)
    const { id } = view
    const credentials = yield* decryptCredentials(id, row)
    if (credentials === null) return null
    const event = testDeliveryEvent(encodeId('whd', row.test_delivery_id), view, now)
    const body = JSON.stringify(envelopeOf(event, { recordedAt: now, mode: row.mode }))
    return {
      kind: { name: 'test', event: event.id },
      id: row.test_delivery_id,
      subscriptionId: row.id,
      delivery: {
        url: row.url,
        eventBatch: eventBatchId(id, event.id, 1),
        body: Buffer.from(bodyOf([{ body }])),
        ...credentialsAt(credentials, now),
      },
      startedAt: now,
    }
  })

  /** A batch that waits has its body. That of an ended one is made again from its events. */
  const bodyOfBatch = async (q: Queries, { account, batch_id: batch, id, mode }: TakenResendRow) => {
    const stored = await selectBody(q, batch)
    if (stored !== null) return stored
    const events = await selectEventsOfBatch(q, id, batch)
    const bodies = await ReadEvents.readBodies(q, { account, mode }, events)
    if (bodies.length === 0 || bodies.length < events.length) return null
    return Buffer.from(bodyOf(bodies.map((body) => ({ body }))))
  }

  const toResend = Effect.fnUntraced(function* (row: TakenResendRow, body: Uint8Array | null, now: number) {
    const credentials = yield* decryptCredentials(encodeId('we', row.id), row)
    if (credentials === null || body === null) return null
    return {
      kind: { name: 'resend', of: row.resend_of, attempt: row.attempt },
      id: row.resend_id,
      subscriptionId: row.id,
      delivery: {
        url: row.url,
        eventBatch: encodeId('evb', row.batch_id),
        body,
        ...credentialsAt(credentials, now),
      },
      startedAt: now,
    } satisfies DeliveryOnDemand
  })

  return FanoutStore.of({
    acquire: (partition) => transaction((q) => acquirePosition(q, partition)),
    sources: sql.run(selectSources, { deadline: TRANSACTION_DEADLINE }),
    subscriptionsOf: (sources) =>
      sources.length === 0
        ? Effect.succeed([])
        : sql
            .run((q) => selectEndpointsOf(q, sources), { deadline: TRANSACTION_DEADLINE })
            .pipe(Effect.flatMap((rows) => Effect.forEach(rows, toRecord))),
    subscription: (uuid) =>
      sql
        .run((q) => selectSubscription(q, uuid))
        .pipe(Effect.flatMap((row) => (row === null ? Effect.succeed(null) : toRecord(row)))),
    journal: ({ account, mode }, { createdUntil, ...range }) =>
      sql
        .run((q) =>
          ReadEvents.readRange(
            q,
            { account: uuidOf('acc', account), mode },
            { ...range, createdUntil: new Date(createdUntil) },
          ),
        )
        .pipe(
          Effect.map((rows) =>
            rows.map(({ body, id, sequence, type }) => ({
              id: encodeId('evt', id),
              sequence,
              eventType: type,
              body,
            })),
          ),
        ),
    storeBatches: Effect.fnUntraced(function* (owner, position, batches, redelivery = null) {
      const now = yield* Clock.currentTimeMillis
      return yield* owned(owner.partition, (q) =>
        storeBatches(q, owner, { position, batches, redelivery, now }),
      )
    }),
    due: Effect.fnUntraced(function* (request) {
      const now = yield* Clock.currentTimeMillis
      return yield* sql.run((q) => selectDue(q, request, now, settings))
    }),
    expired: Effect.fnUntraced(function* (request) {
      const now = yield* Clock.currentTimeMillis
      return yield* sql.run((q) => selectExpired(q, request, now, settings))
    }),
    body: (batch) => sql.run((q) => selectBody(q, batch)),
    record: (owner, outcomes) => owned(owner.partition, (q) => recordOutcomes(q, owner, outcomes, settings)),
    redeliveries: sql.run(selectOpenRedeliveries),
    takeOnDemand: Effect.fnUntraced(function* (limit) {
      if (!(yield* sql.run(hasOnDemand))) return []
      const tests = yield* sql.run((q) => takeTestDeliveries(q, limit))
      const room = limit - tests.length
      const rows = room === 0 ? [] : yield* sql.run((q) => takeResends(q, room))
      const resends = yield* Effect.forEach(rows, (row) =>
        Effect.map(
          sql.run((q) => bodyOfBatch(q, row)),
          (body) => ({ row, body }),
        ),
      )
      const now = yield* Clock.currentTimeMillis
      const taken = [
        ...(yield* Effect.forEach(tests, (row) => toTestDelivery(row, now))),
        ...(yield* Effect.forEach(resends, ({ body, row }) => toResend(row, body, now))),
      ]
      return taken.filter((one) => one !== null)
    }),
    recordOnDemand: (taken, result) =>
      transaction(async (q) => {
        const { delivery, id, kind, subscriptionId } = taken
        const deleted = await (kind.name === 'test'
          ? deleteTestDelivery(q, subscriptionId, id)
          : deleteResend(q, id))
        if (!deleted || !(await lockUndeleted(q, subscriptionId))) return
        const batch = uuidOf('evb', delivery.eventBatch)
        if (kind.name === 'test') {
          await insertBatchEvents(q, [
            { subscriptionId, event: uuidOf('evt', kind.event), batch, position: 0 },
          ])
        }
        await insertOnDemandAttempt(q, taken, batch, result)
      }),
    releaseOnDemand: ({ id, kind }) =>
      Effect.asVoid(
        sql.run((q) => (kind.name === 'test' ? releaseTestDelivery(q, id) : releaseResend(q, id))),
      ),
    purgeDeleted: transaction(purgeDeleted),
    endingCertificates: (before) =>
      sql
        .run((q) => WebhooksEndpoints.findExpiringCertificates(q, new Date(before)))
        .pipe(Effect.map(({ enabled }) => enabled)),
    waiting: sql.run((q) => countBatches(q, COUNT_LIMIT)),
    answers: sql.answers,
  } satisfies FanoutStoreShape)
})

export const layerPostgresStore: Layer.Layer<FanoutStore, never, Sql | MasterKeyEncryption> = Layer.effect(
  FanoutStore,
  makePostgresStore,
)
