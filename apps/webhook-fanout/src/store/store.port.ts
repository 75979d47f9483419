/**
 * What the fan-out keeps in PostgreSQL. Each change is one transaction that first takes the partition's row under the
 * epoch of its owner: a process that lost its partition without knowing changes nothing. Source: architecture, Webhooks.
 */
import {
  decodeId,
  encodeId,
  envelopeOf,
  eventBatchId,
  type HealthAction,
  type Mode,
  type SubscriptionStatus,
  testDeliveryEvent,
} from '@hub/domain'
import {
  type Queries,
  Sql,
  StorageRejected,
  type StorageError,
  uuidOf,
  MasterKeyEncryption,
} from '@hub/store'
import type { Delivery, DeliveryResult, FailureReason } from '@hub/webhooks'
import { Clock, Context, Data, Effect, Layer, Redacted } from 'effect'
import type { Cut } from '../batching/collector.ts'
import {
  bodyOfBatch,
  dueBatches,
  type DueRequest,
  expiredBatches,
  type ExpiredRequest,
  type FoundBatches,
} from './due-batches.ts'
import { FanoutSettings } from '../config.ts'
import type { PendingBatch, SubscriptionRecord } from '../subscriptions/subscription.ts'
import { recordOutcomes } from './record-outcomes.ts'
import { claimTrials, clearDeleted, recordTrial, releaseTrial, type TrialRow } from './trials.ts'
import { traceparentsOf } from '../delivery/batch-traces.ts'

/** Another process has taken the partition over. Nothing was changed; nothing will be. */
export class PartitionLost extends Data.TaggedError('PartitionLost')<{ readonly partition: number }> {}

/** A partition under the epoch of this process's ownership. */
export interface Ownership {
  readonly partition: number
  readonly epoch: number
}

/** Reasons of the delivery log that are no fault of a connection. Source: contract, Webhook subscription. */
export type ExpiryReason = 'retry_window_expired' | 'retry_window_expired_while_disabled'

/** What became of an attempt, or that there was none because the window had closed. */
export interface Outcome {
  readonly endpoint: string
  readonly batch: PendingBatch
  readonly kind: 'attempt' | 'expiry'
  readonly responseCode: number | null
  readonly durationMs: number
  /** `null`: it succeeded. */
  readonly reason: FailureReason | ExpiryReason | null
  /** When it began and when it ended, milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number
}

/** How a subscription stands after its outcomes were recorded. */
export interface Standing {
  readonly status: SubscriptionStatus
  readonly consecutiveFailures: number
  readonly backlogReleasedAt: number | null
  readonly action: HealthAction
}

export interface Recorded {
  /** By UUID; missing for what has been deleted meanwhile. */
  readonly standings: ReadonlyMap<string, Standing>
  /** When each batch that stays pending is due next, by UUID. */
  readonly nextDue: ReadonlyMap<string, number>
}

/** Events of one subscription, to be stored as one batch less what it has already. */
export type BatchCut = Cut<{ readonly uuid: string; readonly id: string }>

export interface QueuedBatch {
  readonly endpoint: string
  readonly batch: PendingBatch
}

/** A period whose events a subscription is to receive once more, as far as it has been queued. */
export interface OpenRedelivery {
  /** UUID. */
  readonly id: string
  /** Of the subscription, UUID. */
  readonly endpoint: string
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  /** Place in the journal behind which it goes on. */
  readonly afterSequence: number
  /** Events created before this are part of it, milliseconds since the epoch. */
  readonly createdBefore: number
  /** Its batches that are not delivered yet. */
  readonly pending: number
}

/** How far a redelivery has got with the batches that are stored in the same transaction. */
export interface RedeliveryStep {
  readonly id: string
  readonly afterSequence: number
  readonly finished: boolean
}

/** Transactions here move at most some thousand rows; a database that takes longer is in trouble. */
const TRANSACTION_DEADLINE = '8 seconds'

/** A JSON array of events: each is the text that `/v1/events` serves. */
const bodyOf = (events: ReadonlyArray<{ readonly body: string }>): string =>
  `[${events.map((event) => event.body).join(',')}]`

interface EndpointRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly url: string
  readonly event_types: ReadonlyArray<string>
  readonly status: SubscriptionStatus
  readonly secret: Buffer
  readonly previous_secret: Buffer | null
  readonly secret_rotation_ends_at: Date | null
  readonly consecutive_failures: number
  readonly backlog_released_at: Date | null
  readonly disabled_by_batch: string | null
  readonly after_sequence: string
  readonly next_attempt_at: Date | null
  readonly queued_at: Date | null
}

interface RedeliveryRow {
  readonly id: string
  readonly endpoint_id: string
  readonly account: string
  readonly mode: Mode
  readonly after_sequence: string
  readonly created_before: Date
  readonly pending: number
}

/** Moves a redelivery on. */
const moveRedelivery = (q: Queries, step: RedeliveryStep, cuts: ReadonlyArray<BatchCut>) => q`
  UPDATE webhooks.redeliveries SET
    after_sequence = ${step.afterSequence},
    events = events + ${cuts.reduce((sum, cut) => sum + cut.events.length, 0)},
    batches = batches + ${cuts.length},
    finished_at = ${step.finished ? q`now()` : null}
  WHERE id = ${step.id}`

const time = (date: Date | null): number | null => date?.getTime() ?? null

/** A trial delivery that this process has taken: the event is made, and the secrets that sign it are those in force. */
export interface Trial {
  /** UUID of the attempt that it will be. */
  readonly id: string
  /** UUID. */
  readonly endpoint: string
  readonly url: string
  /** `evb_…` */
  readonly eventBatch: string
  /** `evt_…` */
  readonly event: string
  readonly body: Uint8Array
  readonly secrets: Delivery['secrets']
  /** When it was taken, milliseconds since the epoch. */
  readonly startedAt: number
}

export interface FanoutStoreShape {
  /**
   * Takes a partition over: all earlier owners are shut out. `position` is the next offset to read, -1 for
   * none yet.
   */
  readonly take: (
    partition: number,
  ) => Effect.Effect<{ readonly epoch: number; readonly position: number }, StorageError>
  /** Accounts and modes that have subscriptions, `acc_…` first. */
  readonly sources: Effect.Effect<
    ReadonlyArray<{ readonly account: string; readonly mode: Mode }>,
    StorageError
  >
  /** The subscriptions of these. */
  readonly subscriptionsOf: (
    sources: ReadonlyArray<{ readonly account: string; readonly mode: Mode }>,
  ) => Effect.Effect<ReadonlyArray<SubscriptionRecord>, StorageError>
  /** One subscription (UUID), or `null` when it is gone. */
  readonly subscription: (uuid: string) => Effect.Effect<SubscriptionRecord | null, StorageError>
  /** Events of the journal behind a place and created not later than `createdUntil` (ms), oldest first. */
  readonly journal: (
    source: { readonly account: string; readonly mode: Mode },
    range: { readonly afterSequence: number; readonly createdUntil: number; readonly limit: number },
  ) => Effect.Effect<
    ReadonlyArray<{
      readonly id: string
      readonly sequence: number
      readonly eventType: string
      readonly body: string
    }>,
    StorageError
  >
  /**
   * Stores batches and moves the position, in one transaction. Events that a subscription has in a batch already are
   * left out: what is read twice is queued once. Answers the new batches, bodies included, in the order given. Batches of
   * a redelivery are apart from the others, and it moves on with them.
   */
  readonly queue: (
    owner: Ownership,
    position: number,
    cuts: ReadonlyArray<BatchCut>,
    redelivery?: RedeliveryStep | null,
  ) => Effect.Effect<ReadonlyArray<QueuedBatch>, StorageError | PartitionLost>
  /**
   * Batches of an enabled subscription that are due, at most `limit`, without those named: in order of their time, or,
   * of a released backlog, in the order of its events, `first` before all of them. `nextDueAt` is there when these are all that
   * are due now.
   */
  readonly due: (request: DueRequest) => Effect.Effect<FoundBatches, StorageError>
  /** Pending batches of a disabled subscription whose window has closed; `nextDueAt` as for `due`. */
  readonly expired: (request: ExpiredRequest) => Effect.Effect<FoundBatches, StorageError>
  /** The body of a pending batch, or `null` when it is gone. */
  readonly body: (batch: string) => Effect.Effect<Uint8Array | null, StorageError>
  /**
   * Records outcomes in the order in which they ended: attempts, next attempts, the run of failures and disabling, in
   * one transaction. Repeating it records nothing twice: an attempt counts only behind the one before it.
   */
  readonly record: (
    owner: Ownership,
    outcomes: ReadonlyArray<Outcome>,
  ) => Effect.Effect<Recorded, StorageError | PartitionLost>
  /**
   * Takes trials that were asked for and that nobody has taken, oldest first. One that cannot be signed is not among them, and waits
   * until nobody waits for it.
   */
  readonly claimTrials: (limit: number) => Effect.Effect<ReadonlyArray<Trial>, StorageError>
  /** Puts a trial into the delivery log, unless its subscription was deleted meanwhile. */
  readonly recordTrial: (
    trial: Trial,
    result: Pick<DeliveryResult, 'responseCode' | 'durationMs' | 'reason'>,
  ) => Effect.Effect<void, StorageError>
  /** Gives a trial back. */
  readonly releaseTrial: (trial: Trial) => Effect.Effect<void, StorageError>
  /** Deletes some of what deleted subscriptions have left; answers how many rows, 0 when there are none. */
  readonly clearDeleted: Effect.Effect<number, StorageError>
  /** Redeliveries of which something is still to be queued, oldest first, a hundred at most. */
  readonly redeliveries: Effect.Effect<ReadonlyArray<OpenRedelivery>, StorageError>
  /** Batches that wait for their delivery, counted up to 100,000. */
  readonly waiting: Effect.Effect<number, StorageError>
  /** True when the database answers. */
  readonly answers: Effect.Effect<boolean>
}

export class FanoutStore extends Context.Service<FanoutStore, FanoutStoreShape>()(
  '@hub/webhook-fanout/FanoutStore',
) {
  static readonly layer: Layer.Layer<FanoutStore, never, Sql | MasterKeyEncryption> = Layer.effect(
    FanoutStore,
    Effect.gen(function* () {
      const sql = yield* Sql
      const masterKey = yield* MasterKeyEncryption
      const settings = yield* FanoutSettings
      const transaction = <A>(body: (q: Queries) => Promise<A>) =>
        sql.transaction(body, { deadline: TRANSACTION_DEADLINE })

      const openSecret = (id: string, box: Buffer | null) =>
        box === null
          ? Effect.succeed(null)
          : masterKey.decrypt('webhook-secret', id, box).pipe(
              Effect.map((plain) => Redacted.make(plain.toString('utf8'))),
              Effect.catchTag('DecryptionFailed', () =>
                Effect.logError('a webhook secret cannot be decrypted; its subscription waits').pipe(
                  Effect.annotateLogs({ subscription: id }),
                  Effect.as(null),
                ),
              ),
            )

      const toRecord = Effect.fnUntraced(function* (row: EndpointRow): Effect.fn.Return<SubscriptionRecord> {
        const id = encodeId('we', row.id)
        const queuedAt = time(row.queued_at)
        return {
          uuid: row.id,
          id,
          account: encodeId('acc', row.account),
          mode: row.mode,
          url: row.url,
          eventTypes: new Set(row.event_types),
          status: row.status,
          secret: yield* openSecret(id, row.secret),
          previousSecret: yield* openSecret(id, row.previous_secret),
          rotationEndsAt: time(row.secret_rotation_ends_at),
          consecutiveFailures: row.consecutive_failures,
          backlogReleasedAt: time(row.backlog_released_at),
          disabledByBatch: row.disabled_by_batch,
          afterSequence: Number(row.after_sequence),
          nextDueAt:
            row.status === 'enabled'
              ? time(row.next_attempt_at)
              : queuedAt === null
                ? null
                : queuedAt + settings.retryWindowMs,
        }
      })

      const toTrial = Effect.fnUntraced(function* (
        row: TrialRow,
        now: number,
      ): Effect.fn.Return<Trial | null> {
        const id = encodeId('we', row.endpoint_id)
        const rotationEndsAt = time(row.secret_rotation_ends_at)
        const secret = yield* openSecret(id, row.secret)
        if (secret === null) return null
        const previous =
          rotationEndsAt !== null && rotationEndsAt > now ? yield* openSecret(id, row.previous_secret) : null
        const event = testDeliveryEvent(
          encodeId('whd', row.trial_id),
          {
            id,
            url: row.url,
            eventTypes: row.event_types,
            status: row.status,
            createdAt: row.created_at.getTime(),
            disabledAt: time(row.disabled_at),
            disabledReason: row.disabled_reason,
            consecutiveFailures: row.consecutive_failures,
            rotationEndsAt,
          },
          now,
        )
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

      /** Each of the times is one probe of an index. */
      const columns = (q: Queries) => q`
        e.id, e.account, e.mode, e.url, e.event_types, e.status, e.secret, e.previous_secret,
        e.secret_rotation_ends_at, e.consecutive_failures, e.backlog_released_at, e.disabled_by_batch,
        e.after_sequence,
        (SELECT min(b.next_attempt_at) FROM webhooks.batches b
          WHERE b.endpoint_id = e.id) AS next_attempt_at,
        least(
          (SELECT b.queued_at FROM webhooks.batches b
            WHERE b.endpoint_id = e.id AND b.redelivery IS NULL
            ORDER BY b.first_sequence LIMIT 1),
          (SELECT min(b.queued_at) FROM webhooks.batches b
            WHERE b.endpoint_id = e.id AND b.redelivery IS NOT NULL)) AS queued_at`

      const queue: FanoutStoreShape['queue'] = Effect.fnUntraced(function* (
        owner,
        position,
        cuts,
        redelivery = null,
      ) {
        const now = yield* Clock.currentTimeMillis
        const endpoints = cuts.flatMap((cut) => cut.events.map(() => cut.subscription.uuid))
        const events = cuts.flatMap((cut) => cut.events.map((event) => uuidOf('evt', event.id)))
        const queued = yield* transaction(async (q): Promise<ReadonlyArray<QueuedBatch> | null> => {
          const moved = await q`
            UPDATE webhooks.positions SET position = greatest(position, ${position})
            WHERE partition = ${owner.partition} AND epoch = ${owner.epoch}`
          if (moved.count !== 1) return null
          if (redelivery !== null) await moveRedelivery(q, redelivery, cuts)
          if (cuts.length === 0) return []
          const known = await q<{ endpoint_id: string; event_id: string }[]>`
            SELECT endpoint_id, event_id FROM webhooks.batch_events
            WHERE ${redelivery === null ? q`redelivery IS NULL` : q`redelivery = ${redelivery.id}`}
              AND (endpoint_id, event_id) IN (SELECT * FROM unnest(${endpoints}::uuid[], ${events}::uuid[]))`
          // A cut may name an event twice, too: when it was read again before it was stored.
          const seen = new Set(known.map((row) => `${row.endpoint_id} ${row.event_id}`))
          const batches = cuts.flatMap(({ events: candidates, subscription }) => {
            const fresh = candidates.flatMap((event) => {
              const uuid = uuidOf('evt', event.id)
              const key = `${subscription.uuid} ${uuid}`
              if (seen.has(key)) return []
              seen.add(key)
              return [{ ...event, uuid }]
            })
            const [first] = fresh
            if (first === undefined) return []
            const id = eventBatchId(subscription.id, first.id, fresh.length, redelivery?.id ?? null)
            const text = bodyOf(fresh)
            return [
              {
                endpoint: subscription.uuid,
                firstSequence: first.sequence,
                events: fresh,
                text,
                batch: {
                  uuid: uuidOf('evb', id),
                  id,
                  attempts: 0,
                  queuedAt: now,
                  nextAttemptAt: now,
                  redelivery: redelivery?.id ?? null,
                  body: Buffer.from(text),
                  begun: null,
                  ...traceparentsOf(fresh),
                } satisfies PendingBatch,
              },
            ]
          })
          if (batches.length === 0) return []
          const at = new Date(now)
          await q`
            INSERT INTO webhooks.batches ${q(
              batches.map(({ batch, endpoint, events: members, firstSequence, text }) => ({
                id: batch.uuid,
                endpoint_id: endpoint,
                partition: owner.partition,
                first_sequence: firstSequence,
                event_count: members.length,
                body: text,
                queued_at: at,
                scheduled_at: at,
                next_attempt_at: at,
                redelivery: batch.redelivery,
              })),
            )}`
          const rows = batches.flatMap(({ batch, endpoint, events: members }) =>
            members.map(({ uuid }, index) => ({ endpoint, uuid, batch: batch.uuid, index })),
          )
          await q`
            INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position, redelivery)
            SELECT *, ${redelivery?.id ?? null}::uuid FROM unnest(${rows.map((row) => row.endpoint)}::uuid[], ${rows.map((row) => row.uuid)}::uuid[],
              ${rows.map((row) => row.batch)}::uuid[], ${rows.map((row) => row.index)}::smallint[])`
          return batches.map(({ batch, endpoint }) => ({ endpoint, batch }))
        })
        return queued ?? (yield* new PartitionLost({ partition: owner.partition }))
      })

      const record: FanoutStoreShape['record'] = Effect.fnUntraced(function* (owner, outcomes) {
        const recorded = yield* transaction((q) => recordOutcomes(q, owner, outcomes, settings))
        return recorded ?? (yield* new PartitionLost({ partition: owner.partition }))
      })

      return {
        take: (partition) =>
          transaction(async (q) => {
            const [row] = await q<{ epoch: string; position: string }[]>`
              INSERT INTO webhooks.positions (partition, position, epoch) VALUES (${partition}, -1, 1)
              ON CONFLICT (partition) DO UPDATE SET epoch = webhooks.positions.epoch + 1
              RETURNING epoch, position`
            return { epoch: Number(row?.epoch), position: Number(row?.position) }
          }),
        sources: sql
          .run(
            (q) =>
              q<{ account: string; mode: Mode }[]>`
                SELECT DISTINCT account, mode FROM webhooks.endpoints WHERE deleted_at IS NULL`,
            { deadline: TRANSACTION_DEADLINE },
          )
          .pipe(
            Effect.map((rows) =>
              rows.map(({ account, mode }) => ({ account: encodeId('acc', account), mode })),
            ),
          ),
        subscriptionsOf: (sources) =>
          sources.length === 0
            ? Effect.succeed([])
            : sql
                .run(
                  (q) => q<EndpointRow[]>`
                    SELECT ${columns(q)} FROM webhooks.endpoints e
                    WHERE e.deleted_at IS NULL AND (e.account, e.mode) IN (
                      SELECT * FROM unnest(${sources.map(({ account }) => decodeId('acc', account))}::uuid[],
                                           ${sources.map(({ mode }) => mode)}::command.mode[]))`,
                  { deadline: TRANSACTION_DEADLINE },
                )
                .pipe(Effect.flatMap((rows) => Effect.forEach(rows, toRecord))),
        subscription: (uuid) =>
          sql
            .run(
              (q) => q<EndpointRow[]>`
                SELECT ${columns(q)} FROM webhooks.endpoints e WHERE e.id = ${uuid} AND e.deleted_at IS NULL`,
            )
            .pipe(Effect.flatMap(([row]) => (row === undefined ? Effect.succeed(null) : toRecord(row)))),
        journal: ({ account, mode }, { afterSequence, createdUntil, limit }) =>
          sql
            .run(
              (q) => q<{ id: string; sequence: string; type: string; body: string }[]>`
                SELECT id, sequence, type, body FROM read.events
                WHERE account = ${decodeId('acc', account)} AND mode = ${mode} AND sequence > ${afterSequence}
                  AND created_at <= ${new Date(createdUntil)}
                ORDER BY sequence LIMIT ${limit}`,
            )
            .pipe(
              Effect.map((rows) =>
                rows.map((row) => ({
                  id: encodeId('evt', row.id),
                  sequence: Number(row.sequence),
                  eventType: row.type,
                  body: row.body,
                })),
              ),
            ),
        queue,
        due: Effect.fnUntraced(function* (request) {
          const now = yield* Clock.currentTimeMillis
          return yield* sql.run((q) => dueBatches(q, request, now, settings))
        }),
        expired: Effect.fnUntraced(function* (request) {
          const now = yield* Clock.currentTimeMillis
          return yield* sql.run((q) => expiredBatches(q, request, now, settings))
        }),
        body: (batch) => sql.run((q) => bodyOfBatch(q, batch)),
        record,
        redeliveries: sql
          .run(
            (q) => q<RedeliveryRow[]>`
              SELECT r.id, r.endpoint_id, e.account, e.mode, r.after_sequence, r.created_before,
                     (SELECT count(*) FROM webhooks.batches b
                       WHERE b.endpoint_id = e.id AND b.redelivery = r.id)::integer AS pending
                FROM webhooks.redeliveries r JOIN webhooks.endpoints e ON e.id = r.endpoint_id
               WHERE r.finished_at IS NULL AND e.deleted_at IS NULL
               ORDER BY r.requested_at LIMIT 100`,
          )
          .pipe(
            Effect.map((rows) =>
              rows.map((row) => ({
                id: row.id,
                endpoint: row.endpoint_id,
                account: encodeId('acc', row.account),
                mode: row.mode,
                afterSequence: Number(row.after_sequence),
                createdBefore: row.created_before.getTime(),
                pending: row.pending,
              })),
            ),
          ),
        claimTrials: Effect.fnUntraced(function* (limit) {
          const rows = yield* sql.run((q) => claimTrials(q, limit))
          const now = yield* Clock.currentTimeMillis
          const trials = yield* Effect.forEach(rows, (row) => toTrial(row, now))
          return trials.filter((trial) => trial !== null)
        }),
        recordTrial: (trial, result) =>
          transaction((q) =>
            recordTrial(q, {
              trialId: trial.id,
              endpoint: trial.endpoint,
              eventBatch: uuidOf('evb', trial.eventBatch),
              event: uuidOf('evt', trial.event),
              responseCode: result.responseCode,
              durationMs: result.durationMs,
              reason: result.reason,
              startedAt: trial.startedAt,
            }),
          ),
        releaseTrial: (trial) => Effect.asVoid(sql.run((q) => releaseTrial(q, trial.id))),
        clearDeleted: transaction(clearDeleted),
        waiting: Effect.map(
          sql.run(
            (q) => q<{ count: number }[]>`
              SELECT count(*)::integer AS count FROM (SELECT 1 FROM webhooks.batches LIMIT 100000) AS counted`,
          ),
          ([row]) => row?.count ?? 0,
        ),
        answers: sql
          .run((q) => q`SELECT 1`)
          .pipe(
            Effect.as(true),
            Effect.orElseSucceed(() => false),
          ),
      }
    }),
  )
}

/** True when PostgreSQL refused because a subscription was deleted meanwhile. */
export const isGone = (error: StorageError): boolean =>
  error instanceof StorageRejected && error.code === '23503'
