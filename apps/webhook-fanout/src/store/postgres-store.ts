/** The store on PostgreSQL: composes the statements of the tables and decrypts secrets. */
import { encodeId, envelopeOf, eventBatchId, type SubscriptionView, testDeliveryEvent } from '@hub/domain'
import { MasterKeyEncryption, type Queries, ReadEvents, Sql, uuidOf } from '@hub/store'
import { Clock, Effect, Layer, Redacted } from 'effect'
import { FanoutSettings } from '../config.ts'
import type { SubscriptionRecord } from '../subscriptions/subscription.ts'
import { insertTestAttempt } from './attempts.ts'
import { insertBatchEvents } from './batch-events.ts'
import { countBatches } from './batches.ts'
import { purgeDeleted } from './purge-deleted.ts'
import { selectBody, selectDue, selectExpired } from './due-batches.ts'
import {
  type EndpointRow,
  lockUndeleted,
  selectEndpoint,
  selectEndpointsOf,
  selectSources,
} from './endpoints.ts'
import { acquirePosition } from './positions.ts'
import { recordOutcomes } from './record-outcomes.ts'
import { selectOpenRedeliveries } from './redeliveries.ts'
import { bodyOf, storeBatches } from './store-batches.ts'
import { FanoutStore, type FanoutStoreShape, PartitionLost, type TestDelivery } from './store.port.ts'
import { toMs } from './times.ts'
import { deleteTestDelivery, releaseTestDelivery, type TakenRow, takeTestDeliveries } from './trials.ts'

/** A transaction changes at most some thousand rows; a database that takes longer is overloaded. */
const TRANSACTION_DEADLINE = '8 seconds'

/** Counting more batches would cost more than the metric is worth. */
const COUNT_LIMIT = 100_000

/** The subscription of a test delivery, as its event shows it. */
const viewOf = (row: TakenRow): SubscriptionView => ({
  id: encodeId('we', row.endpoint_id),
  url: row.url,
  eventTypes: row.event_types,
  status: row.status,
  createdAt: row.created_at.getTime(),
  disabledAt: toMs(row.disabled_at),
  disabledReason: row.disabled_reason,
  consecutiveFailures: row.consecutive_failures,
  rotationEndsAt: toMs(row.secret_rotation_ends_at),
})

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

  const decrypt = (id: string, encrypted: Buffer | null) =>
    encrypted === null
      ? Effect.succeed(null)
      : masterKey.decrypt('webhook-secret', id, encrypted).pipe(
          Effect.map((plain) => Redacted.make(plain.toString('utf8'))),
          Effect.catchTag('DecryptionFailed', () =>
            Effect.logError(
              'fan-out store: a webhook secret cannot be decrypted; its subscription gets no deliveries',
            ).pipe(Effect.annotateLogs({ subscription: id }), Effect.as(null)),
          ),
        )

  const toRecord = Effect.fnUntraced(function* (row: EndpointRow): Effect.fn.Return<SubscriptionRecord> {
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
      secret: yield* decrypt(id, row.secret),
      previousSecret: yield* decrypt(id, row.previous_secret),
      rotationEndsAt: toMs(row.secret_rotation_ends_at),
      consecutiveFailures: row.consecutive_failures,
      backlogReleasedAt: toMs(row.backlog_released_at),
      disabledByBatch: row.disabled_by_batch,
      afterSequence: Number(row.after_sequence),
      nextDueAt: row.status === 'enabled' ? toMs(row.next_attempt_at) : expiresAt,
    }
  })

  const toTestDelivery = Effect.fnUntraced(function* (
    row: TakenRow,
    now: number,
  ): Effect.fn.Return<TestDelivery | null> {
    const view = viewOf(row)
    const { id, rotationEndsAt } = view
    const secret = yield* decrypt(id, row.secret)
    if (secret === null) return null
    const inRotation = rotationEndsAt !== null && rotationEndsAt > now
    const previous = inRotation ? yield* decrypt(id, row.previous_secret) : null
    const event = testDeliveryEvent(encodeId('whd', row.trial_id), view, now)
    const body = JSON.stringify(envelopeOf(event, { recordedAt: now, mode: row.mode }))
    return {
      id: row.trial_id,
      endpoint: row.endpoint_id,
      url: row.url,
      eventBatch: eventBatchId(id, event.id, 1),
      event: event.id,
      body: Buffer.from(bodyOf([{ body }])),
      secrets: previous === null ? [secret] : [secret, previous],
      startedAt: now,
    }
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
        .run((q) => selectEndpoint(q, uuid))
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
    takeTestDeliveries: Effect.fnUntraced(function* (limit) {
      const rows = yield* sql.run((q) => takeTestDeliveries(q, limit))
      const now = yield* Clock.currentTimeMillis
      const taken = yield* Effect.forEach(rows, (row) => toTestDelivery(row, now))
      return taken.filter((one) => one !== null)
    }),
    recordTestDelivery: ({ endpoint, event, eventBatch, id, startedAt }, result) =>
      transaction(async (q) => {
        if (!(await deleteTestDelivery(q, endpoint, id)) || !(await lockUndeleted(q, endpoint))) return
        const batch = uuidOf('evb', eventBatch)
        await insertBatchEvents(q, [{ endpoint, event: uuidOf('evt', event), batch, position: 0 }])
        await insertTestAttempt(q, { id, endpoint, batch, startedAt, ...result })
      }),
    releaseTestDelivery: ({ id }) => Effect.asVoid(sql.run((q) => releaseTestDelivery(q, id))),
    purgeDeleted: transaction(purgeDeleted),
    waiting: sql.run((q) => countBatches(q, COUNT_LIMIT)),
    answers: sql
      .run((q) => q`SELECT 1`)
      .pipe(
        Effect.as(true),
        Effect.orElseSucceed(() => false),
      ),
  } satisfies FanoutStoreShape)
})

export const layerPostgresStore: Layer.Layer<FanoutStore, never, Sql | MasterKeyEncryption> = Layer.effect(
  FanoutStore,
  makePostgresStore,
)
