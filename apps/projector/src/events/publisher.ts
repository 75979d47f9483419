/**
 * Recorded events on their way to Kafka. Each transaction left them in an outbox row; here they are published in
 * the order in which their commits became known and the row goes. What a crash or an absent bus leaves behind is published
 * from the outbox, oldest first, before anything new. So an account's events are published about in their order; who
 * needs it exactly has their sequence numbers.
 */
import { type KafkaUnavailable, EventLog, type OutgoingRecord } from '@hub/kafka'
import { relayOutbox, Sql } from '@hub/store'
import { Clock, Effect, Fiber, Option, Queue } from 'effect'
import type { Publication } from '../projection/transaction.ts'
import { failures, observeOutbox } from '../metrics.ts'
import { unpackRow } from './outbox-row.ts'
import { countOutbox, deleteOutbox } from '../tables/all.ts'

/** Transactions that may be committed and not published. More would only fill memory: Kafka is slower than the database. */
const CAPACITY = 8

/** Publishing is nobody's wait; a broker that takes this long for some thousand records is as good as away. */
const DEADLINE_MS = 5000

/** How often an idle publisher looks for rows that a projector left when it died. */
const IDLE_MS = 5000

/** A row older than this has nobody left who is publishing it: twice the deadline of the one who would. */
const ABANDONED_MS = 2 * DEADLINE_MS

/** Between turns while another projector has the relay, or Kafka or the database is away. */
const PAUSE_MS = 250

/** How long the end of the process waits for what is committed to be published; the rest is in the outbox. */
const LINGER_MS = 1500

/** Of a relay's turn, which publishes inside its transaction, and that has a deadline of 2.5 s. */
const RELAY_DEADLINE_MS = 2000

export interface Publisher {
  /** To be called after each commit, in order. Waits while too many are unpublished. */
  readonly publish: (publication: Publication) => Effect.Effect<void>
  /** There is something in the outbox that was not given to `publish`. */
  readonly leftBehind: Effect.Effect<void>
}

/** Runs until the scope closes; then what was committed is still published, for a second and a half at most. */
export const makePublisher = Effect.gen(function* () {
  const sql = yield* Sql
  const log = yield* EventLog
  const queue = yield* Queue.bounded<Publication>(CAPACITY)
  /**
   * Rows that are older than this moment (milliseconds since the epoch) are published from the outbox before anything
   * of the queue; `null` when there are none. At start nobody knows what the last process left.
   */
  let behindSince: number | null = yield* Clock.currentTimeMillis
  let working = false
  let ending = false

  const append = (records: ReadonlyArray<OutgoingRecord>, deadlineMs: number) =>
    Effect.asVoid(log.append(records, { deadlineMs })).pipe(Effect.tapError(() => failures.add('bus', 1)))

  const publishRows = (rows: ReadonlyArray<Uint8Array>): Effect.Effect<void, KafkaUnavailable> =>
    Effect.suspend(() => append(rows.flatMap(unpackRow), RELAY_DEADLINE_MS))

  /** One turn of the relay, for rows older than `since`. Answers how many are left. */
  const relay = Effect.fnUntraced(function* (since: number) {
    const olderThanMs = Math.max(0, (yield* Clock.currentTimeMillis) - since)
    yield* relayOutbox('read.event_outbox', publishRows, { olderThanMs })
    const { ageSeconds, left, waiting } = yield* sql.run((q) => countOutbox(q, olderThanMs))
    yield* observeOutbox(waiting, ageSeconds)
    return left
  })

  const publishNext = Effect.gen(function* () {
    const first = yield* Queue.take(queue).pipe(Effect.timeoutOption(IDLE_MS))
    if (Option.isNone(first)) {
      yield* relay((yield* Clock.currentTimeMillis) - ABANDONED_MS)
      return
    }
    working = true
    const publications = [first.value, ...(yield* Queue.clear(queue))]
    yield* append(
      publications.flatMap(({ records }) => records),
      DEADLINE_MS,
    )
    const ids = publications.map(({ outboxId }) => outboxId)
    yield* sql.run((q) => deleteOutbox(q, ids))
  })

  /** What was taken from the queue, and what is in it, is in the outbox. */
  const fallBehind = Effect.fnUntraced(function* (cause: string) {
    yield* Queue.clear(queue)
    behindSince = yield* Clock.currentTimeMillis
    yield* Effect.logWarning('events stay in the outbox for now').pipe(Effect.annotateLogs({ cause }))
    yield* Effect.sleep(PAUSE_MS)
  })

  const turn = Effect.suspend(() => {
    const since = behindSince
    if (since === null) return publishNext
    working = true
    return Effect.flatMap(relay(since), (left) => {
      if (left > 0) return Effect.sleep(PAUSE_MS)
      if (behindSince === since) behindSince = null
      return Effect.void
    })
  }).pipe(
    Effect.catch((error) => fallBehind(error._tag)),
    // A fault of ours, such as a row that nobody can read, must not end the publishing of the others.
    Effect.catchDefect((defect) =>
      Effect.andThen(Effect.logError('publishing failed', defect), fallBehind('defect')),
    ),
    Effect.ensuring(
      Effect.sync(() => {
        working = false
      }),
    ),
  )

  const fiber = yield* Effect.forkScoped(
    Effect.whileLoop({
      while: () => !(ending && Queue.sizeUnsafe(queue) === 0),
      body: () => turn,
      step: () => {},
    }),
  )
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      ending = true
      return working || Queue.sizeUnsafe(queue) > 0
        ? Fiber.await(fiber).pipe(Effect.timeoutOption(LINGER_MS))
        : Effect.void
    }),
  )

  const publisher: Publisher = {
    publish: (publication) =>
      Effect.gen(function* () {
        if (behindSince !== null && Queue.isFullUnsafe(queue)) {
          // Kafka is away: the outbox is the queue until it is back, and the read models do not wait for it.
          yield* Queue.clear(queue)
          behindSince = yield* Clock.currentTimeMillis
          return
        }
        yield* Queue.offer(queue, publication)
      }),
    leftBehind: Effect.map(Clock.currentTimeMillis, (now) => {
      behindSince = now
    }),
  }
  return publisher
})
