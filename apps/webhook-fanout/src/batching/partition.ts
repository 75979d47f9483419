/**
 * One partition of `hub.webhooks.v1`: ingests its records, collects events into batches, and stores
 * the batches together with the position. Source: docs/architecture.md, Webhooks.
 *
 * The position is the lowest offset of an event that some subscription does not have in a stored
 * batch. After a crash the next owner reads from there, and no other state is needed.
 */
import { decodeId } from '@hub/domain'
import { makeWakeSignal } from '@hub/flow'
import {
  deadLetterRecord,
  decodeRecord,
  EventLog,
  type EventRecorded,
  type IncomingRecord,
  type KafkaUnavailable,
  type SubscriptionChanged,
} from '@hub/kafka'
import { storageCrashPoint, type StorageError } from '@hub/store'
import { traceHeadersIn } from '@hub/telemetry'
import { Clock, Effect, Result } from 'effect'
import { FanoutSettings } from '../config.ts'
import type { Deliverer } from '../delivery/deliverer.ts'
import type { Outcome } from '../subscriptions/outcome.ts'
import { metrics } from '../metrics.ts'
import { makeOutcomeRecorder } from '../recording/outcome-recorder.ts'
import { isDeletedSubscription, retryStorage } from '../store/storage-errors.ts'
import {
  type EventSource,
  FanoutStore,
  type NewWebhookBatch,
  type OpenRedelivery,
  type Ownership,
  type PartitionLost,
  type StoredBatch,
} from '../store/store.port.ts'
import { makeJournalReplay } from './journal-replay.ts'
import { makeSubscriptionRegistry } from './registry.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { Collector, inJournalOrder } from './collector.ts'

interface PartitionConsumer {
  readonly pause: () => void
  readonly resume: () => void
  /** Commits the position to Kafka. Only lag monitoring uses it. */
  readonly commit: (position: number) => Effect.Effect<void, KafkaUnavailable>
}

interface PartitionOptions {
  readonly ownership: Ownership
  /** The first offset to read. */
  readonly startAt: number
  readonly sources: ReadonlyArray<EventSource>
  readonly deliverer: Deliverer
  readonly consumer: PartitionConsumer
}

export interface Partition {
  /** Next offset to read. */
  readonly position: () => number
  readonly paused: () => boolean
  /** Events that are not stored in a batch yet. */
  readonly collected: () => number
  readonly subscriptions: () => number
  /** Of them, those that are disabled. */
  readonly disabled: () => number
  /** Ingests records. After a failure the records from `position` on must be passed again. */
  readonly ingest: (
    records: ReadonlyArray<IncomingRecord>,
  ) => Effect.Effect<void, StorageError | KafkaUnavailable>
  /** Stores the next batches of a redelivery, if its subscription is here and enabled. */
  readonly redeliver: (redelivery: OpenRedelivery) => Effect.Effect<void, StorageError | PartitionLost>
  /** Passes an outcome to the recorder. */
  readonly report: (subscription: Subscription, outcome: Outcome) => void
  /** Stores batches and records outcomes; fails when another process owns the partition. */
  readonly run: Effect.Effect<never, PartitionLost>
  /** Aborts all attempts, synchronously: the partition may have a new owner. */
  readonly close: () => void
}

/** A position without batches, and the offset committed to Kafka, may lag by so long, ms. */
const POSITION_EVERY_MS = 1000

const atBatchesStored = storageCrashPoint(
  'webhook-fanout.batches-stored',
  (stored: ReadonlyArray<StoredBatch>) => stored.length > 0,
)

export const openPartition = Effect.fnUntraced(function* (options: PartitionOptions) {
  const { consumer, deliverer, ownership, sources, startAt } = options
  const number = ownership.partition
  const store = yield* FanoutStore
  const log = yield* EventLog
  const settings = yield* FanoutSettings
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  const collector = new Collector<Subscription>(settings)
  const storeSignal = makeWakeSignal()
  let position = startAt
  let storedPosition = startAt
  /** The stored position that Kafka has. Tools count a partition without one as one record behind. */
  let committedPosition: number | null = null
  let triedToCommitAt = Number.NEGATIVE_INFINITY
  let ingestedAt = 0
  /** A change of a subscription was read: command-api waits until the stored position passes it. */
  let positionAwaited = false
  let paused = false
  let closed = false

  const subscriptions = yield* makeSubscriptionRegistry({
    partition: number,
    deliverer,
    onRemoved: (subscription) => collector.drop(subscription),
  })
  const replay = yield* makeJournalReplay({ ownership, subscriptions, position: () => storedPosition })
  const recorder = yield* makeOutcomeRecorder({ ownership, deliverer, reload: subscriptions.reload })

  const onSubscriptionChanged = Effect.fnUntraced(function* (
    record: SubscriptionChanged,
    uuid: string,
    appendedAt: number,
  ) {
    const subscription = yield* subscriptions.reload(uuid)
    if (record.change === 'created' && subscription !== null) {
      yield* replay.catchUp(subscription, appendedAt).pipe(
        // It was deleted again; the record of that follows.
        Effect.catchTag('StorageRejected', (error) =>
          isDeletedSubscription(error) ? Effect.void : Effect.fail(error),
        ),
        // The new owner reads the same record, and `run` fails as well.
        Effect.catchTag('PartitionLost', () => Effect.void),
      )
    }
  })

  const onEventRecorded = (record: EventRecorded, incoming: IncomingRecord) => {
    const trace = traceHeadersIn(incoming)
    const event = {
      id: record.event,
      sequence: record.sequence,
      body: record.body,
      offset: incoming.offset,
      ...(trace === null ? {} : { trace }),
    }
    const at = now()
    for (const subscription of subscriptions.of(record.account, record.mode)) {
      if (subscription.wants(record)) collector.add(subscription, event, at)
    }
  }

  const deadLetter = Effect.fnUntraced(function* (record: IncomingRecord, reason: string) {
    yield* log.append([deadLetterRecord(record, reason)])
    metrics.deadLetters.add()
    yield* Effect.logError('partition: wrote an unreadable record to the dead-letter topic').pipe(
      Effect.annotateLogs({ topic: record.topic, partition: number, offset: record.offset, reason }),
    )
  })

  const ingestRecord = (incoming: IncomingRecord): Effect.Effect<void, StorageError | KafkaUnavailable> => {
    const decoded = decodeRecord(incoming.value)
    if (Result.isFailure(decoded)) return deadLetter(incoming, decoded.failure.reason)
    const record = decoded.success
    switch (record.type) {
      case 'EventRecorded': {
        if (decodeId('evt', record.event) === null) return deadLetter(incoming, 'invalid_id')
        onEventRecorded(record, incoming)
        return Effect.void
      }
      case 'SubscriptionChanged': {
        const uuid = decodeId('we', record.subscription)
        return uuid === null
          ? deadLetter(incoming, 'invalid_id')
          : onSubscriptionChanged(record, uuid, incoming.appendedAt)
      }
      default:
        return deadLetter(incoming, 'unexpected_type')
    }
  }

  /** Pauses the consumer when too much is collected, and resumes it when half of that is stored. */
  const applyBackpressure = () => {
    const { characters, events } = collector
    const { collectedCharacters, collectedEvents } = settings
    if (!paused && (events > collectedEvents || characters > collectedCharacters)) {
      paused = true
      consumer.pause()
    } else if (paused && events <= collectedEvents / 2 && characters <= collectedCharacters / 2) {
      paused = false
      consumer.resume()
    }
  }

  const ingest: Partition['ingest'] = Effect.fnUntraced(function* (records) {
    let events = 0
    for (const record of records) {
      // Ingested before: the same records come again after a failure at a later one.
      if (record.offset < position) continue
      yield* ingestRecord(record)
      if (closed) return
      position = record.offset + 1
      ingestedAt = now()
      if (record.type === 'EventRecorded') events += 1
      else positionAwaited = true
    }
    applyBackpressure()
    storeSignal.notify()
    metrics.eventsRead.add(events)
  })

  /** When a position that has moved without a batch is stored; `null`: it has not moved. */
  const positionDueAt = (): number | null => {
    if (position === storedPosition) return null
    return positionAwaited ? Number.NEGATIVE_INFINITY : ingestedAt + POSITION_EVERY_MS
  }

  const commitDueAt = (): number | null =>
    committedPosition === storedPosition ? null : triedToCommitAt + POSITION_EVERY_MS

  const nextDueAt = (): number | null => {
    const due = [collector.nextDue(), positionDueAt(), commitDueAt()].filter((at) => at !== null)
    return due.length === 0 ? null : Math.min(...due)
  }

  /**
   * Events that are in no returned batch were stored before. If that transaction was reported as failed, no
   * process has offered their batch to its deliverer. It may have had fewer events than the batch of now.
   */
  const rescanIncomplete = (given: ReadonlyArray<NewWebhookBatch>, stored: ReadonlyArray<StoredBatch>) => {
    const missing = new Map<string, number>()
    const count = (uuid: string, change: number) => missing.set(uuid, (missing.get(uuid) ?? 0) + change)
    for (const { events, subscription } of given) count(subscription.uuid, events.length)
    for (const { subscriptionId, events } of stored) count(subscriptionId, -events)
    for (const [uuid, events] of missing) if (events > 0) subscriptions.rescan(uuid)
  }

  const storeDue = Effect.gen(function* () {
    const at = now()
    const batches = collector.dueBatches(at, settings.storeEvents)
    if (batches.length === 0 && (positionDueAt() ?? Number.POSITIVE_INFINITY) > at) return
    positionAwaited = false
    const next = collector.lowestOffset(batches) ?? position
    const newBatches = batches.map(({ events, subscription }) => ({
      subscription: subscription.record,
      events: inJournalOrder(events),
    }))
    const storingSince = now()
    const stored = yield* store.storeBatches(ownership, next, newBatches).pipe(
      atBatchesStored,
      Effect.catchTag('StorageRejected', (error) => {
        if (!isDeletedSubscription(error)) return Effect.fail(error)
        // A subscription was deleted before its record arrived. The next turn stores the rest.
        const uuids = new Set(newBatches.map(({ subscription }) => subscription.uuid))
        return Effect.as(Effect.forEach(uuids, subscriptions.reload), null)
      }),
    )
    if (stored === null) return
    collector.markStored(batches)
    storedPosition = next
    subscriptions.offer(stored, storingSince)
    rescanIncomplete(newBatches, stored)
    applyBackpressure()
    metrics.batchesQueued.add(stored.length)
  })

  const commitDue = Effect.gen(function* () {
    const at = now()
    if ((commitDueAt() ?? Number.POSITIVE_INFINITY) > at) return
    triedToCommitAt = at
    const position = storedPosition
    yield* consumer.commit(position).pipe(
      Effect.andThen(Effect.sync(() => (committedPosition = position))),
      // The next turn tries again.
      Effect.ignore,
    )
  })

  const storeLoop = Effect.gen(function* () {
    for (;;) {
      yield* storeSignal.waitUntil(nextDueAt())
      yield* storeDue.pipe(retryStorage('partition: could not store webhook batches; trying again', number))
      yield* commitDue
    }
  })

  for (const record of yield* store.subscriptionsOf(sources)) subscriptions.add(record)

  const partition: Partition = {
    position: () => position,
    paused: () => paused,
    collected: () => collector.events,
    subscriptions: subscriptions.count,
    disabled: subscriptions.countDisabled,
    ingest,
    redeliver: replay.redeliver,
    report: (subscription, outcome) => {
      if (!closed) recorder.report(subscription, outcome)
    },
    run: Effect.raceFirst(storeLoop, recorder.run),
    close: () => {
      closed = true
      subscriptions.close()
    },
  }
  return partition
})
