/**
 * The protocol of all subscription changes (create, change, rotate the secret, enable, delete):
 *
 *  1. One transaction writes the row and an outbox entry with the fact `SubscriptionChanged`.
 *  2. After the commit, this process appends the fact to Kafka and deletes the outbox entry. If it
 *     dies before that, the relay appends the fact.
 *  3. The client gets its answer when the fan-out has applied the fact, or at a deadline.
 *
 * A change is appended at once even while the process leaves its rows to the relay (`@hub/outbox`): its
 * client waits for the answer. The order of these facts says nothing, because the fan-out reads the row.
 *
 * Source: docs/architecture.md, Accepting; docs/decisions/webhooks.md#changes-of-a-subscription.
 */
import {
  encodeOutboxRow,
  EventLog,
  kafkaCrashPoint,
  type OutgoingRecord,
  type Position,
  type SubscriptionChange,
  subscriptionChangedRecord,
  type TopicNames,
} from '@hub/kafka'
import { deleteOutboxRows } from '@hub/outbox'
import {
  CommandOutbox,
  type Queries,
  Sql,
  storageCrashPoint,
  type StorageError,
  WebhooksPositions,
} from '@hub/store'
import { Clock, Duration, Effect, Schedule } from 'effect'
import type { Owner } from '../accounts/account.ts'

/** Deadline of the append. The relay appends what takes longer. */
const APPEND_WITHIN_MS = 1000
/**
 * Deadline of the whole command: longer than a webhook batch fills, for which the position of the
 * fan-out waits, and half a second below the bound of the pipeline.
 */
const APPLIED_WITHIN_MS = 2200
const POLL_INTERVAL = Duration.millis(50)
const DEADLINE = { deadline: Duration.millis(500) }

const atAnnounced = kafkaCrashPoint('command-api.subscription-announced')
const atAnnouncementDeleted = storageCrashPoint('command-api.announcement-deleted')

/** A fact that waits in `command.outbox`. */
export interface OutboxEntry {
  /** The id of the outbox row. */
  readonly id: string
  readonly record: OutgoingRecord
}

/** Writes the fact of a change to the outbox, in the transaction that changes the row. */
export const enqueueChange = async (
  q: Queries,
  topics: TopicNames,
  owner: Owner,
  change: { readonly subscription: string; readonly change: SubscriptionChange; readonly at: number },
): Promise<OutboxEntry> => {
  const { account, mode } = owner
  const record = subscriptionChangedRecord(topics, { type: 'SubscriptionChanged', account, mode, ...change })
  return { id: await CommandOutbox.insert(q, encodeOutboxRow([record])), record }
}

/**
 * Appends the fact of a committed change and waits until the fan-out has applied it, at most until
 * 2.2 s after `startedAt` (milliseconds since the epoch). Never fails. Returns false when Kafka did
 * not acknowledge the append: the outbox still has the entry then.
 */
export const makeAwaitApplied = Effect.gen(function* () {
  const sql = yield* Sql
  const log = yield* EventLog

  const isApplied = ({ offset, partition }: Position) =>
    sql.run((q) => WebhooksPositions.isApplied(q, partition, offset), DEADLINE)

  const onAppended = Effect.fnUntraced(
    function* (entry: OutboxEntry, position: Position | undefined, startedAt: number) {
      yield* sql
        .run((q) => deleteOutboxRows(q, 'command.outbox', [Number(entry.id)]), DEADLINE)
        .pipe(atAnnouncementDeleted)
      if (position === undefined) return
      const left = startedAt + APPLIED_WITHIN_MS - (yield* Clock.currentTimeMillis)
      yield* Effect.repeat(isApplied(position), {
        until: (applied) => applied,
        schedule: Schedule.spaced(POLL_INTERVAL),
      }).pipe(Effect.timeoutOption(Duration.millis(Math.max(0, left))))
    },
    Effect.catch((error: StorageError) =>
      Effect.logWarning(
        'webhook endpoints: PostgreSQL failed after a subscription change; answering without waiting for the fan-out',
      ).pipe(
        Effect.annotateLogs({ error: error._tag, ...('detail' in error ? { detail: error.detail } : {}) }),
      ),
    ),
  )

  return (entry: OutboxEntry, startedAt: number): Effect.Effect<boolean> =>
    log.append([entry.record], { deadlineMs: APPEND_WITHIN_MS }).pipe(
      atAnnounced,
      Effect.matchEffect({
        onFailure: ({ detail, reason }) =>
          Effect.logWarning(
            'webhook endpoints: Kafka did not acknowledge a subscription change; its record is in the outbox',
          ).pipe(Effect.annotateLogs({ topic: entry.record.topic, reason, detail }), Effect.as(false)),
        onSuccess: ([position]) => Effect.as(onAppended(entry, position, startedAt), true),
      }),
    )
})
