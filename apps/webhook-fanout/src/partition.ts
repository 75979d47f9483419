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
import { Clock, Effect, Metric, Result, Schedule } from 'effect'
import { makeAlarm } from './alarm.ts'
import { Collector } from './collector.ts'
import type { Deliverer } from './deliverer.ts'
import { metrics } from './metrics.ts'
import type { Note } from './notes-sql.ts'
import { FanoutSettings } from './settings.ts'
import {
  type BatchCut,
  FanoutStore,
  isGone,
  type OpenRedelivery,
  type Outcome,
  type Ownership,
  type PartitionLost,
} from './store.ts'
import { Subscription } from './subscription.ts'

/** An outcome, and whose it is. */
type Ended = readonly [Subscription, Outcome]

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

/** Between tries of what PostgreSQL did not do. */
const RETRY_PAUSE = Schedule.jittered(
  Schedule.min([Schedule.exponential('200 millis'), Schedule.spaced('5 seconds')]),
)

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
  /** Outcomes that are known, and neither being noted nor recorded, in the order in which they became known. */
  let ended: Array<Ended> = []
  /** When the first of them became known, about. */
  let endedSince = 0
  /**
   * Subscriptions whose outcomes are recorded at once: they fail, or have just failed, so that what follows decides what is attempted
   * next.
   */
  let urgent = new Set<Subscription>()
  /** The same while they are recorded. */
  let judging: ReadonlySet<Subscription> = new Set()
  /** Noted and not recorded, oldest first, each with whose successes it has. */
  const notes: Array<{ readonly note: Note; readonly of: ReadonlyArray<Subscription> }> = []
  /** When the first of them was noted. */
  let notesSince = 0
  let lastNote = 0
  let noting = false
  const noteAlarm = makeAlarm()
  const recordAlarm = makeAlarm()
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
      yield* flush().pipe(untilStored('webhook batches could not be stored; trying again', number))
    }
  })

  /** The next successes to note: a statement costs more than what it notes, so they wait a moment for company. */
  const toNote = Effect.gen(function* () {
    for (;;) {
      const latest = ended.length === 0 ? null : endedSince + settings.noteWithinMs
      const ready = ended.length >= settings.noteTogether || (latest !== null && now() >= latest)
      const held = urgent.size > 0 || notes.length >= settings.notes
      if (ready && !held) break
      yield* noteAlarm.wait(held ? null : latest)
    }
    const group = ended.slice(0, settings.noteTogether)
    ended = ended.slice(group.length)
    endedSince = now()
    return group
  })

  const noteSuccesses = Effect.gen(function* () {
    for (;;) {
      const group = yield* toNote
      noting = true
      lastNote += 1
      const given = () => {
        for (const [subscription, success] of group) deliverer.given(subscription, success)
        deliverer.pump()
      }
      const note = yield* store
        .note(
          ownership,
          lastNote,
          group.map(([, success]) => success),
          given,
        )
        .pipe(untilStored('webhook successes could not be noted; trying again', number))
      noting = false
      if (notes.length === 0) notesSince = now()
      notes.push({ note, of: group.map(([subscription]) => subscription) })
      for (const [subscription, success] of group) deliverer.noted(subscription, success)
      recordAlarm.ring()
    }
  })

  /** Waits until something is to be recorded: outcomes at once, though behind the note under way, and notes by the hundred. */
  const untilDue = Effect.gen(function* () {
    for (;;) {
      const latest = notes.length === 0 ? null : notesSince + settings.recordWithinMs
      const held = urgent.size > 0 && noting
      const notesDue = notes.length >= settings.recordNotes || (latest !== null && now() >= latest)
      if (!held && (urgent.size > 0 || notesDue)) return
      yield* recordAlarm.wait(held ? null : latest)
    }
  })

  const recordNotes = Effect.fnUntraced(function* () {
    const recorded = notes.slice()
    if (recorded.length === 0) return
    const others = yield* store
      .recordNotes(
        ownership,
        recorded.map(({ note }) => note),
      )
      .pipe(untilStored('webhook successes could not be recorded; trying again', number))
    notes.splice(0, recorded.length)
    notesSince = now()
    noteAlarm.ring()
    const counts = new Map<Subscription, number>()
    for (const { of } of recorded) for (const one of of) counts.set(one, (counts.get(one) ?? 0) + 1)
    for (const [subscription, count] of counts) deliverer.notesRecorded(subscription, count)
    yield* Metric.update(
      Metric.withAttributes(metrics.attempts, { result: 'succeeded' }),
      recorded.reduce((sum, { note }) => sum + note.size, 0),
    )
    yield* reloadAll(others)
  })

  const recordOutcomes = Effect.fnUntraced(function* (judged: ReadonlyArray<Ended>) {
    const recorded = yield* store
      .record(
        ownership,
        judged.map(([, outcome]) => outcome),
      )
      .pipe(untilStored('webhook attempts could not be recorded; trying again', number))
    const gone = new Set<string>()
    const results = Map.groupBy(judged, ([, outcome]) => outcome.reason ?? 'succeeded')
    for (const [result, those] of results) {
      yield* Metric.update(Metric.withAttributes(metrics.attempts, { result }), those.length)
    }
    for (const [subscription, outcome] of judged) {
      const standing = recorded.standings.get(outcome.endpoint) ?? null
      const disabled = standing?.action === 'disable' && subscription.enabled
      deliverer.settled(subscription, outcome, standing, recorded.nextDue.get(outcome.batch.uuid) ?? null)
      if (disabled) yield* logDisabled(subscription)
      // Deleted, and its fact has not come yet: nothing more is attempted.
      if (standing === null) gone.add(outcome.endpoint)
    }
    yield* reloadAll(gone)
  })

  const reloadAll = (uuids: Iterable<string>) =>
    Effect.forEach(uuids, reload, { discard: true }).pipe(
      untilStored('a subscription could not be read; trying again', number),
    )

  /** Outcomes of a subscription are recorded in the order in which they ended: what was noted of it stands before what is judged. */
  const records = Effect.gen(function* () {
    for (;;) {
      yield* untilDue
      const judged = ended.filter(([subscription]) => urgent.has(subscription))
      if (judged.length > 0) ended = ended.filter(([subscription]) => !urgent.has(subscription))
      judging = urgent
      urgent = new Set()
      noteAlarm.ring()
      yield* recordNotes()
      if (judged.length > 0) yield* recordOutcomes(judged)
      judging = new Set()
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
      if (closed) return
      if (ended.length === 0) endedSince = now()
      ended.push([subscription, outcome])
      if (outcome.reason !== null || subscription.failing || judging.has(subscription))
        urgent.add(subscription)
      if (urgent.size > 0) recordAlarm.ring()
      else if (ended.length === 1 || ended.length === settings.noteTogether) noteAlarm.ring()
    },
    run: Effect.raceAllFirst([flushes, noteSuccesses, records]),
    close: () => {
      closed = true
      for (const subscription of subscriptions.values()) deliverer.close(subscription)
      subscriptions.clear()
      bySource.clear()
    },
  }
  return partition
})

/** Tries again for as long as PostgreSQL is in trouble: nothing can go on without it, and nothing is lost meanwhile. */
const untilStored =
  (message: string, partition: number) =>
  <A, E>(effect: Effect.Effect<A, E | StorageError>): Effect.Effect<A, Exclude<E, StorageError>> =>
    effect.pipe(
      Effect.tapError((error) =>
        isStorageError(error)
          ? Effect.logWarning(message, error).pipe(Effect.annotateLogs({ partition }))
          : Effect.void,
      ),
      Effect.retry({ while: isStorageError, schedule: RETRY_PAUSE }),
    ) as Effect.Effect<A, Exclude<E, StorageError>>

const isStorageError = (error: unknown): boolean =>
  typeof error === 'object' &&
  error !== null &&
  '_tag' in error &&
  (error._tag === 'StorageUnavailable' || error._tag === 'StorageRejected')

/** The subscription is disabled in the database, with the attempt that did it and the event that tells the others. */
const logDisabled = Effect.fnUntraced(function* (subscription: Subscription) {
  yield* Metric.update(metrics.disabled, 1)
  yield* Effect.logWarning('a webhook subscription was disabled: it kept failing').pipe(
    Effect.annotateLogs({
      subscription: subscription.record.id,
      account: subscription.record.account,
      // The host and nothing else of the URL, which may hold secrets.
      host: URL.parse(subscription.record.url)?.host ?? 'unknown',
    }),
  )
})
