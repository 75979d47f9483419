/**
 * Publishes recorded events to `hub.webhooks.v1`. Each transaction stored its events for webhooks
 * in an outbox row. The publisher appends them in the order of the commits, or leaves them to the relay of the
 * outbox. So events of an account are published approximately in order. Readers that need the exact order use
 * the sequence numbers.
 */
import { EventLog, kafkaCrashPoint } from '@hub/kafka'
import { Clock, Effect, Fiber, Queue } from 'effect'
import { countFailure } from '../metrics.ts'
import type { Publication } from '../store/projection-store.port.ts'
import { APPEND_DEADLINE_MS, makeEventOutbox } from './event-outbox.ts'

/** Committed transactions that may wait in memory. More would only use memory. */
const QUEUE_CAPACITY = 8

/** Accounts with webhooks get events, if some were published in this time. */
const IN_USE_MS = 2000

/** How long the process waits for publication at its end. The outbox keeps the rest. */
const SHUTDOWN_GRACE_MS = 1500

const atEventsAppended = kafkaCrashPoint('projector.events-appended')

/** Runs until the scope closes, then publishes committed events for `SHUTDOWN_GRACE_MS` at most. */
export const makePublisher = Effect.gen(function* () {
  const log = yield* EventLog
  const clock = yield* Clock.Clock
  const outbox = yield* makeEventOutbox
  const queue = yield* Queue.bounded<Publication>(QUEUE_CAPACITY)
  let publishedAt = Number.NEGATIVE_INFINITY
  let working = false
  let ending = false

  /** Appends the queued events together, or leaves them to the relay. */
  const publishQueued = Effect.gen(function* () {
    const publications = [yield* Queue.take(queue), ...(yield* Queue.clear(queue))]
    if (outbox.isRelaying()) {
      for (const { outboxRow } of publications) outbox.leave(outboxRow)
      return
    }
    working = true
    yield* outbox.appending(
      publications.map(({ outboxRow }) => outboxRow),
      log
        .append(
          publications.flatMap(({ records }) => records),
          { deadlineMs: APPEND_DEADLINE_MS },
        )
        .pipe(
          Effect.tapError(() => countFailure('bus')),
          atEventsAppended,
        ),
    )
  }).pipe(
    Effect.catch((error) =>
      Effect.logWarning('event publisher: append failed, relaying the events from the outbox').pipe(
        Effect.annotateLogs({ cause: error._tag }),
      ),
    ),
    // A defect must not stop the publication of other events.
    Effect.catchDefect((defect) => Effect.logError('event publisher: defect', defect)),
    Effect.ensuring(
      Effect.sync(() => {
        working = false
      }),
    ),
  )

  const fiber = yield* Effect.forkScoped(
    Effect.whileLoop({
      while: () => !(ending && Queue.sizeUnsafe(queue) === 0),
      body: () => publishQueued,
      step: () => {},
    }),
  )
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      ending = true
      return working || Queue.sizeUnsafe(queue) > 0
        ? Fiber.await(fiber).pipe(Effect.timeoutOption(SHUTDOWN_GRACE_MS))
        : Effect.void
    }),
  )

  return {
    /**
     * Publishes events. Call it after each commit, in order. Waits while the queue is full, but not for
     * the relay: while Kafka is unavailable, the outbox is the queue.
     */
    publish: (publication: Publication): Effect.Effect<void> =>
      Effect.suspend(() => {
        publishedAt = clock.currentTimeMillisUnsafe()
        if (!outbox.isRelaying()) return Effect.asVoid(Queue.offer(queue, publication))
        outbox.leave(publication.outboxRow)
        return Effect.void
      }),
    /** True while accounts with webhooks get events. */
    isInUse: (): boolean => clock.currentTimeMillisUnsafe() - publishedAt < IN_USE_MS,
    /** Reports that the outbox contains rows that were not given to `publish`. */
    relayRemaining: Effect.sync(() => outbox.leave(null)),
  }
})
export type Publisher = Effect.Success<typeof makePublisher>
