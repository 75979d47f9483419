/**
 * Publishes recorded events to `hub.webhooks.v1`. Each transaction stored its events for webhooks
 * in an outbox row. The publisher appends them in the order of the commits, and deletes the rows soon after.
 *
 * After a crash or while Kafka is unavailable, rows stay in the outbox. The publisher relays them,
 * oldest first, before any newer events. So events of an account are published approximately in
 * order. Readers that need the exact order use the sequence numbers.
 */
import { EventLog, kafkaCrashPoint, type OutgoingRecord } from '@hub/kafka'
import { Clock, Effect, Fiber, Option, Queue } from 'effect'
import { countFailure, observeOutbox } from '../metrics.ts'
import { type Publication, ProjectionStore } from '../store/projection-store.port.ts'

/** Committed transactions that may wait in memory. More would only use memory. */
const QUEUE_CAPACITY = 8

/** No client waits for this. A slower broker counts as unavailable. */
const APPEND_DEADLINE_MS = 5000

/**
 * How long the rows of appended events may wait for their deletion. It is no part of the way of an event,
 * and costs the same for one row as for many.
 */
const DELETE_AFTER_MS = 250

/** How often an idle publisher looks for rows of a projector that died. */
const IDLE_MS = 5000

/** An older row belongs to a dead process: a living one would have met its deadline. */
const ABANDONED_AFTER_MS = 2 * APPEND_DEADLINE_MS

/** The pause while another projector relays, or while Kafka or PostgreSQL is unavailable. */
const RETRY_PAUSE_MS = 250

/** Accounts with webhooks get events, if some were published in this time. */
const IN_USE_MS = 2000

/** How long the process waits for publication at its end. The outbox keeps the rest. */
const SHUTDOWN_GRACE_MS = 1500

/** The relay appends inside its transaction, which has a deadline of 9 s. */
const RELAY_DEADLINE_MS = APPEND_DEADLINE_MS

const atEventsAppended = kafkaCrashPoint('projector.events-appended')
const atEventsRelayed = kafkaCrashPoint('projector.events-relayed')

/** Runs until the scope closes, then publishes committed events for `SHUTDOWN_GRACE_MS` at most. */
export const makePublisher = Effect.gen(function* () {
  const store = yield* ProjectionStore
  const log = yield* EventLog
  const queue = yield* Queue.bounded<Publication>(QUEUE_CAPACITY)
  /**
   * Rows older than this (ms since the epoch) are relayed before the queue; `null`: there are none.
   * At the start, the previous process may have left rows.
   */
  let relayBefore: number | null = yield* Clock.currentTimeMillis
  const clock = yield* Clock.Clock
  let publishedAt = Number.NEGATIVE_INFINITY
  let working = false
  let ending = false
  /** The outbox rows whose events are in Kafka, and when the oldest is to be deleted. */
  let appended: { readonly ids: Array<string>; readonly deleteAt: number } | null = null

  const deleteAppended = Effect.suspend(() => {
    if (appended === null) return Effect.void
    const { ids } = appended
    appended = null
    return store.deleteOutboxRows(ids)
  })

  const append = (records: ReadonlyArray<OutgoingRecord>, deadlineMs: number) =>
    Effect.asVoid(log.append(records, { deadlineMs })).pipe(Effect.tapError(() => countFailure('bus')))

  /** Relays some rows older than `before`. Returns how many such rows remain. */
  const relay = Effect.fnUntraced(function* (before: number) {
    const olderThanMs = Math.max(0, (yield* Clock.currentTimeMillis) - before)
    yield* store.relayOutbox((records) => atEventsRelayed(append(records, RELAY_DEADLINE_MS)), olderThanMs)
    const { ageSeconds, olderRows, rows } = yield* store.outboxStatus(olderThanMs)
    yield* observeOutbox(rows, ageSeconds)
    return olderRows
  })

  const publishQueued = Effect.gen(function* () {
    const waitMs = appended === null ? IDLE_MS : appended.deleteAt - (yield* Clock.currentTimeMillis)
    const first = yield* Queue.take(queue).pipe(Effect.timeoutOption(Math.max(0, waitMs)))
    if (Option.isNone(first) && appended !== null) return yield* deleteAppended
    if (Option.isNone(first)) {
      yield* relay((yield* Clock.currentTimeMillis) - ABANDONED_AFTER_MS)
      return
    }
    working = true
    const publications = [first.value, ...(yield* Queue.clear(queue))]
    yield* append(
      publications.flatMap(({ records }) => records),
      APPEND_DEADLINE_MS,
    ).pipe(atEventsAppended)
    const now = yield* Clock.currentTimeMillis
    appended ??= { ids: [], deleteAt: now + DELETE_AFTER_MS }
    appended.ids.push(...publications.map(({ outboxId }) => outboxId))
    if (now >= appended.deleteAt) yield* deleteAppended
  })

  /** After a failure: clears the queue, and relays its events from the outbox. */
  const switchToRelay = Effect.fnUntraced(function* (cause: string) {
    yield* Queue.clear(queue)
    relayBefore = yield* Clock.currentTimeMillis
    yield* Effect.logWarning('event publisher: append failed, relaying the events from the outbox').pipe(
      Effect.annotateLogs({ cause }),
    )
    yield* Effect.sleep(RETRY_PAUSE_MS)
  })

  const step = Effect.suspend(() => {
    const before = relayBefore
    if (before === null) return publishQueued
    working = true
    // Otherwise the relay would append their events again.
    return Effect.flatMap(Effect.andThen(deleteAppended, relay(before)), (remaining) => {
      if (remaining > 0) return Effect.sleep(RETRY_PAUSE_MS)
      if (relayBefore === before) relayBefore = null
      return Effect.void
    })
  }).pipe(
    Effect.catch((error) => switchToRelay(error._tag)),
    // A defect, such as a row that cannot be decoded, must not stop the publication of other rows.
    Effect.catchDefect((defect) =>
      Effect.andThen(Effect.logError('event publisher: defect', defect), switchToRelay('defect')),
    ),
    Effect.ensuring(
      Effect.sync(() => {
        working = false
      }),
    ),
  )

  const fiber = yield* Effect.forkScoped(
    Effect.whileLoop({
      while: () => !(ending && Queue.sizeUnsafe(queue) === 0 && appended === null),
      body: () => step,
      step: () => {},
    }),
  )
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      ending = true
      return working || Queue.sizeUnsafe(queue) > 0 || appended !== null
        ? Fiber.await(fiber).pipe(Effect.timeoutOption(SHUTDOWN_GRACE_MS))
        : Effect.void
    }),
  )

  return {
    /** Publishes events. Call it after each commit, in order. Waits while the queue is full. */
    publish: (publication: Publication): Effect.Effect<void> =>
      Effect.gen(function* () {
        publishedAt = yield* Clock.currentTimeMillis
        if (relayBefore !== null && Queue.isFullUnsafe(queue)) {
          // While Kafka is unavailable, the outbox is the queue: the read models do not wait.
          yield* Queue.clear(queue)
          relayBefore = publishedAt
          return
        }
        yield* Queue.offer(queue, publication)
      }),
    /** True while accounts with webhooks get events. */
    isInUse: (): boolean => clock.currentTimeMillisUnsafe() - publishedAt < IN_USE_MS,
    /** Reports that the outbox contains rows that were not given to `publish`. */
    relayRemaining: Effect.map(Clock.currentTimeMillis, (now): void => {
      relayBefore = now
    }),
  }
})
export type Publisher = Effect.Success<typeof makePublisher>
