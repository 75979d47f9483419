/**
 * One partition of `hub.webhooks.v1`: its subscriptions, what has been read and not yet stored, and the loops that
 * store batches, note successes and record outcomes. Source: architecture, Webhooks.
 *
 * The position stored with the batches is the smallest one that some subscription has still to flush. So a crash reads
 * again what no batch has, and nothing else is remembered.
 */
import { decodeId, type Mode } from '@hub/domain'
import {
  type KafkaUnavailable,
  deadLetterRecord,
  decodeRecord,
  EventLog,
  type EventRecorded,
  type IncomingRecord,
  type SubscriptionChanged,
  webhooksKey,
} from '@hub/kafka'
import type { StorageError } from '@hub/store'
import { Clock, Effect, Metric, Result } from 'effect'
import { makeAlarm } from '../delivery/wake-signal.ts'
import { Collector } from './collector.ts'
import type { Deliverer } from '../delivery/deliverer.ts'
import { metrics } from '../metrics.ts'
import { makeOutcomeRecorder } from '../recording/outcome-recorder.ts'
import { retryStorage } from '../store/retry.ts'
import { FanoutSettings } from '../config.ts'
import {
  type BatchCut,
  FanoutStore,
  isGone,
  type OpenRedelivery,
  type Outcome,
  type Ownership,
  type PartitionLost,
} from '../store/store.port.ts'
import { Subscription } from '../subscriptions/subscription.ts'

/** What a partition does to its consumer. */
export interface Reading {
  readonly pause: () => void
  readonly resume: () => void
  /** For whoever watches lag; nothing depends on it. */
  readonly commit: (position: number) => Effect.Effect<void>
}

export interface Partition {
  readonly number: number
  /** Next offset to read. */
  readonly position: () => number
  readonly paused: () => boolean
  readonly collected: () => number
  readonly subscriptions: () => number
  /** Of them, those that are disabled. */
  readonly disabled: () => number
  /** Folds records. Fails where it could not go on; the records from there on must come again. */
  readonly read: (
    records: ReadonlyArray<IncomingRecord>,
  ) => Effect.Effect<void, StorageError | KafkaUnavailable>
  /** Queues what there is room for of a redelivery, where its subscription is of this partition and enabled. */
  readonly redeliver: (redelivery: OpenRedelivery) => Effect.Effect<void, StorageError | PartitionLost>
  readonly report: (subscription: Subscription, outcome: Outcome) => void
  /** Stores batches, notes successes and records outcomes until interrupted; fails when the partition is another's. */
  readonly run: Effect.Effect<never, PartitionLost>
  /** Breaks off everything. Synchronous, so that nothing of it happens after the partition was given away. */
  readonly close: () => void
}

/** A position without batches, and an offset committed, may trail by so long, ms. */
const POSITION_EVERY_MS = 1000

/** A page of the journal when a new subscription catches up. */
const CATCH_UP_PAGE = 1000

/** Batches of a redelivery that wait for their delivery; the next are queued when there are fewer. */
const REDELIVERY_BATCHES = 200

/** Clocks of processes differ by less; what was recorded so long after a fact was appended was appended behind it. */
const CLOCKS_DIFFER_MS = 60_000

export const openPartition = Effect.fnUntraced(function* (
  number: number,
  ownership: Ownership,
  startAt: number,
  sources: ReadonlyArray<{ readonly account: string; readonly mode: Mode }>,
  deliverer: Deliverer,
  reading: Reading,
) {
  const store = yield* FanoutStore
  const log = yield* EventLog
  const settings = yield* FanoutSettings
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  const subscriptions = new Map<string, Subscription>()
  const bySource = new Map<string, Set<Subscription>>()
  const collector = new Collector<Subscription>(settings)
  const alarm = makeAlarm()
  let position = startAt
  let stored = startAt
  let committedAt = Number.NEGATIVE_INFINITY
  let readAt = 0
  /** A change of a subscription was read: whoever made it waits for the position to pass it. */
  let awaited = false
  let paused = false
  let closed = false

  const add = (subscription: Subscription) => {
    const { account, mode, uuid } = subscription.record
    subscriptions.set(uuid, subscription)
    const source = webhooksKey(account, mode)
    const siblings = bySource.get(source)
    if (siblings === undefined) bySource.set(source, new Set([subscription]))
    else siblings.add(subscription)
    deliverer.open(subscription)
  }

  const remove = (subscription: Subscription) => {
    const { account, mode, uuid } = subscription.record
    const source = webhooksKey(account, mode)
    subscriptions.delete(uuid)
    bySource.get(source)?.delete(subscription)
    if (bySource.get(source)?.size === 0) bySource.delete(source)
    collector.drop(subscription)
    deliverer.close(subscription)
  }

  /** Reads a subscription again; it may be new, changed or gone. */
  const reload = Effect.fnUntraced(function* (uuid: string) {
    const record = yield* store.subscription(uuid)
    if (closed) return null
    const known = subscriptions.get(uuid)
    if (record === null) {
      if (known !== undefined) remove(known)
      return null
    }
    if (known === undefined) {
      const subscription = new Subscription(record, number)
      add(subscription)
      return subscription
    }
    known.record = record
    deliverer.changed(known)
    return known
  })

  const recorder = yield* makeOutcomeRecorder({ ownership, deliverer, reload })

  const offer = (queued: ReadonlyArray<{ readonly endpoint: string; readonly batch: Outcome['batch'] }>) => {
    for (const [endpoint, batches] of Map.groupBy(queued, (one) => one.endpoint)) {
      const subscription = subscriptions.get(endpoint)
      if (subscription !== undefined) {
        deliverer.offer(
          subscription,
          batches.map(({ batch }) => batch),
        )
      }
    }
  }

  const batchCut = ({ events, subscription }: ReturnType<typeof collector.cut>[number]): BatchCut => ({
    subscription: subscription.record,
    events,
  })

  /** Events of the journal as batches, which are full but for the last. */
  const cutsOf = (
    subscription: Subscription,
    events: ReadonlyArray<{ readonly id: string; readonly sequence: number; readonly body: string }>,
  ): ReadonlyArray<BatchCut> => {
    const cuts: Array<BatchCut> = []
    for (let start = 0; start < events.length; start += settings.batchEvents) {
      cuts.push({
        subscription: subscription.record,
        events: events
          .slice(start, start + settings.batchEvents)
          .map((event) => ({ ...event, offset: position })),
      })
    }
    return cuts
  }

  /** Not more than has room is queued at once: whatever the period, the rest stays in the journal. */
  const redeliver: Partition['redeliver'] = Effect.fnUntraced(function* (redelivery) {
    const subscription = subscriptions.get(redelivery.endpoint)
    let after = redelivery.afterSequence
    let room = REDELIVERY_BATCHES - redelivery.pending
    while (room > 0 && subscription?.enabled === true && !subscription.closed) {
      const events = yield* store.journal(subscription.record, {
        afterSequence: after,
        createdUntil: redelivery.createdBefore - 1,
        limit: CATCH_UP_PAGE,
      })
      if (closed) return
      const finished = events.length < CATCH_UP_PAGE
      after = events.at(-1)?.sequence ?? after
      const cuts = cutsOf(
        subscription,
        events.filter((event) => subscription.asksFor(event)),
      )
      offer(
        yield* store.queue(ownership, stored, cuts, { id: redelivery.id, afterSequence: after, finished }),
      )
      if (finished) {
        yield* Effect.logInfo('a redelivery is queued').pipe(
          Effect.annotateLogs({ redelivery: redelivery.id, subscription: subscription.record.id }),
        )
        return
      }
      room -= cuts.length
    }
  })

  /**
   * A subscription is in the database before its fact is in the topic. Events recorded in between may have been read
   * before the fact: they are taken from the journal, so that exactly what lies behind the creation is delivered.
   */
  const catchUp = Effect.fnUntraced(function* (subscription: Subscription, appendedAt: number) {
    let after = subscription.record.afterSequence
    for (;;) {
      const events = yield* store.journal(subscription.record, {
        afterSequence: after,
        createdUntil: appendedAt + CLOCKS_DIFFER_MS,
        limit: CATCH_UP_PAGE,
      })
      const last = events.at(-1)
      if (last === undefined || closed) return
      after = last.sequence
      const cuts = cutsOf(
        subscription,
        events.filter((event) => subscription.wants(event)),
      )
      // The position stays: what else was read is not flushed by this.
      if (cuts.length > 0) offer(yield* store.queue(ownership, stored, cuts))
    }
  })

  const onChanged = Effect.fnUntraced(function* (
    record: SubscriptionChanged,
    uuid: string,
    appendedAt: number,
  ) {
    const subscription = yield* reload(uuid)
    if (record.change === 'created' && subscription !== null) {
      yield* catchUp(subscription, appendedAt).pipe(
        // Deleted again: its own fact follows.
        Effect.catchTag('StorageRejected', (error) => (isGone(error) ? Effect.void : Effect.fail(error))),
        // Whoever owns the partition now reads the same fact; `run` notices as well.
        Effect.catchTag('PartitionLost', () => Effect.void),
      )
    }
  })

  const onRecorded = (record: EventRecorded, { offset, traceparent }: IncomingRecord) => {
    const wanting = bySource.get(webhooksKey(record.account, record.mode))
    if (wanting === undefined) return
    const event = {
      id: record.event,
      sequence: record.sequence,
      body: record.body,
      offset,
      ...(traceparent === null ? {} : { traceparent }),
    }
    const at = now()
    for (const subscription of wanting) if (subscription.wants(record)) collector.add(subscription, event, at)
  }

  const setAside = Effect.fnUntraced(function* (record: IncomingRecord, reason: string) {
    yield* log.append([deadLetterRecord(record, reason)])
    yield* Metric.update(metrics.deadLetters, 1)
    yield* Effect.logError('a record cannot be read and was set aside').pipe(
      Effect.annotateLogs({ topic: record.topic, partition: number, offset: record.offset, reason }),
    )
  })

  const fold = (incoming: IncomingRecord): Effect.Effect<void, StorageError | KafkaUnavailable> => {
    const decoded = decodeRecord(incoming.value)
    if (Result.isFailure(decoded)) return setAside(incoming, decoded.failure.reason)
    const record = decoded.success
    switch (record.type) {
      case 'EventRecorded': {
        if (decodeId('evt', record.event) === null) return setAside(incoming, 'invalid_id')
        onRecorded(record, incoming)
        return Effect.void
      }
      case 'SubscriptionChanged': {
        const uuid = decodeId('we', record.subscription)
        return uuid === null ? setAside(incoming, 'invalid_id') : onChanged(record, uuid, incoming.appendedAt)
      }
      default:
        return setAside(incoming, 'unexpected_type')
    }
  }

  const relieve = () => {
    const full =
      collector.events > settings.collectedEvents || collector.characters > settings.collectedCharacters
    const roomy =
      collector.events <= settings.collectedEvents / 2 &&
      collector.characters <= settings.collectedCharacters / 2
    if (!paused && full) {
      paused = true
      reading.pause()
    } else if (paused && roomy) {
      paused = false
      reading.resume()
    }
  }

  const read: Partition['read'] = Effect.fnUntraced(function* (records) {
    let events = 0
    for (const record of records) {
      // Folded already, before a failure further on made the same records come again.
      if (record.offset < position) continue
      yield* fold(record)
      if (closed) return
      position = record.offset + 1
      readAt = now()
      if (record.type === 'EventRecorded') events += 1
      else awaited = true
    }
    relieve()
    alarm.ring()
    yield* Metric.update(metrics.eventsRead, events)
  })

  /** When the next flush is due: a batch, or a position that moved without one. */
  const nextFlush = (): number | null => {
    const due = collector.nextDue()
    const idle = position > stored ? readAt + (awaited ? 0 : POSITION_EVERY_MS) : null
    return due === null ? idle : idle === null ? due : Math.min(due, idle)
  }

  const flush = Effect.fnUntraced(function* () {
    const at = now()
    const cuts = collector.cut(at, settings.flushEvents)
    const idleSince = awaited ? Number.NEGATIVE_INFINITY : readAt
    if (cuts.length === 0 && (position === stored || idleSince + POSITION_EVERY_MS > at)) return
    awaited = false
    const next = collector.lowestOffset(cuts) ?? position
    const queued = yield* store
      .queue(ownership, next, cuts.map(batchCut))
      .pipe(
        Effect.catchTag('StorageRejected', (error) =>
          isGone(error)
            ? Effect.as(
                Effect.forEach(new Set(cuts.map((cut) => cut.subscription.record.uuid)), reload),
                null,
              )
            : Effect.fail(error),
        ),
      )
    // A subscription was deleted before its fact was read: the rest is stored in the next turn.
    if (queued === null) return
    collector.remove(cuts)
    stored = next
    offer(queued)
    relieve()
    yield* Metric.update(metrics.batchesQueued, queued.length)
    if (at - committedAt >= POSITION_EVERY_MS) {
      committedAt = at
      yield* reading.commit(stored)
    }
  })

  const flushes = Effect.gen(function* () {
    for (;;) {
      yield* alarm.wait(nextFlush())
      yield* flush().pipe(retryStorage('webhook batches could not be stored; trying again', number))
    }
  })

  for (const record of yield* store.subscriptionsOf(sources)) add(new Subscription(record, number))

  const partition: Partition = {
    number,
    position: () => position,
    paused: () => paused,
    collected: () => collector.events,
    subscriptions: () => subscriptions.size,
    disabled: () => {
      let count = 0
      for (const subscription of subscriptions.values()) if (!subscription.enabled) count++
      return count
    },
    read,
    redeliver,
    report: (subscription, outcome) => {
      if (!closed) recorder.report(subscription, outcome)
    },
    run: Effect.raceFirst(flushes, recorder.run),
    close: () => {
      closed = true
      for (const subscription of subscriptions.values()) deliverer.close(subscription)
      subscriptions.clear()
      bySource.clear()
    },
  }
  return partition
})
