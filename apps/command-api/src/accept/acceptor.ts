/**
 * The batching acceptor: records many sends in one transaction and appends them to Kafka in one produce (group commit).
 *
 * A send is checked and rendered first (`checked-send.ts`). Then it waits, not for a timer, but only until an acceptance batch
 * in progress has been recorded. The next acceptance batch contains all sends that arrived meanwhile. So an idle hub answers
 * at once, and a busy hub shares the cost of a commit.
 *
 * The steps of an acceptance batch:
 *   1. `prepare.ts` looks up used `client_ref`s, remembered ids, opt-outs and PostgreSQL's clock.
 *   2. `decide.ts` decides each send: new, repeat or refused. New sends then pass the daily limit and the flood windows.
 *   3. `prepare.ts` encrypts and encodes what is new.
 *   4. `record.ts` commits it. A `service` message is accepted now: it cannot be lost. If another process took a `client_ref`
 *      meanwhile, the send waits for the next acceptance batch, where it is a repeat.
 *   5. `publish.ts` appends it to Kafka, while the next acceptance batch is already being recorded. An acknowledgement accepts
 *      codes. After a failure the relay appends the outbox rows, and codes are rolled back with `provider_unavailable`: they
 *      stay unproven in the ledger, and a repeat publishes the same id again.
 *   6. `seal-batch.ts` seals batches whose last outcome became known outside of a commit.
 *
 * Some calls succeed although they are reported as failed. After a commit that timed out, the repeat finds its message and
 * the relay its outbox row. After an append that timed out, the repeat appends the same id again, and readers drop it. A
 * reservation is made once per id, and expires if nobody confirms it.
 *
 * If PostgreSQL rejects the data of an acceptance batch, it is split in halves until the send at fault is alone.
 *
 * Bounded: waiting sends, sends and bytes of an acceptance batch, and the time until a send has its outcome.
 */
import { apiError } from '@hub/contract'
import type { EventLog } from '@hub/kafka'
import { PayloadEncryption } from '@hub/store'
import { Tracing } from '@hub/telemetry'
import {
  Cause,
  Clock,
  Context,
  Deferred,
  Duration,
  Effect,
  Latch,
  Layer,
  Metric,
  Result,
  Schedule,
} from 'effect'
import { acceptanceBatchSeconds, acceptanceBatchSends, waitingSends } from '../metrics.ts'
import {
  type AcceptanceServices,
  type AcceptorOptions,
  cancelCode,
  releaseInBackground,
} from './acceptance-services.ts'
import type { CheckedSend } from './checked-send.ts'
import { makeCodesInProgress } from './codes-in-progress.ts'
import { isNew } from './decide.ts'
import { Ledger } from './ledger.port.ts'
import { Limits, reservationOf, type SendReservation } from './limits.ts'
import type { OutboxMode } from './outbox-mode.ts'
import {
  makePendingSends,
  NOT_QUEUED,
  OVERLOADED,
  type PendingSend,
  type RequestContext,
  type SendOutcome,
  STORAGE_DOWN,
} from './pending-send.ts'
import {
  applyDailyLimit,
  completeKnown,
  decideBatch,
  ledgerQueryOf,
  messageIdOf,
  payloadKeys,
  prepareNew,
  reserveFloodWindows,
} from './prepare.ts'
import { makePublisher } from './publish.ts'
import { recordBatch } from './record.ts'
import { sealPendingBatch } from './seal-batch.ts'

/** Sends of one acceptance batch. A transaction of 2,000 rows takes about 30 ms; more would delay the sends behind it. */
const BATCH_SENDS = 2000
/** Bytes of one acceptance batch. This bounds the outbox row and the produce, whatever the length of the texts. */
const BATCH_BYTES = 4 * 1024 * 1024
/**
 * Acceptance batches in progress. With one, the first send after an answer would start a batch alone, and all others would
 * wait for it; the second batch takes them. The unique index on references orders two batches with a common reference.
 */
const BATCHES_IN_PROGRESS = 2
/** How often the acceptor looks for sends that have waited too long, and for appended outbox rows to delete. */
const HOUSEKEEPING_EVERY = Duration.millis(100)
/** Time for what is recorded and not yet published when the process ends: two appends and a deletion. */
const DRAIN_WITHIN = Duration.seconds(3)

/** The result of a request. */
export interface AcceptanceResult {
  /** In the order of the sends. */
  readonly outcomes: ReadonlyArray<SendOutcome>
  /** Creation time of its batch, milliseconds since the epoch; `null`: no batch was created. */
  readonly batchCreatedAt: number | null
  /** True if the ledger contains the response under the idempotency key. */
  readonly responseStored: boolean
}

export class BatchingAcceptor extends Context.Service<
  BatchingAcceptor,
  {
    /**
     * Accepts the sends of one request. Never fails, and returns within 3 s: a failure of the hub is an outcome too
     * (`internal_error` or `provider_unavailable`, with `retry_after`).
     */
    readonly accept: (
      sends: ReadonlyArray<CheckedSend>,
      context?: RequestContext,
    ) => Effect.Effect<AcceptanceResult>
  }
>()('@hub/command-api/BatchingAcceptor') {}

/** Estimated bytes of a send in the ledger and in its record: twice its text, and its other fields. */
const bytesOf = ({ draft }: CheckedSend): number =>
  Result.isSuccess(draft) ? 600 + 4 * draft.success.rendered.text.length : 100

/** Takes the sends of one acceptance batch from the queue. */
const takeBatch = (queue: Array<PendingSend>): ReadonlyArray<PendingSend> => {
  let bytes = 0
  let count = 0
  for (const send of queue) {
    const more = bytesOf(send.checked)
    if (count > 0 && (count >= BATCH_SENDS || bytes + more > BATCH_BYTES)) break
    bytes += more
    count++
  }
  // A send that got its outcome meanwhile (it waited too long) must not be recorded.
  return queue.splice(0, count).filter((send) => send.outcome === null)
}

/** Steps 1 to 4 of an acceptance batch. */
const acceptBatch = Effect.fnUntraced(function* (
  services: AcceptanceServices,
  sends: ReadonlyArray<PendingSend>,
) {
  const keys = yield* payloadKeys(services.encryption, sends)
  const snapshot = yield* services.ledger.lookup(ledgerQueryOf(sends))
  const { at } = snapshot
  const decided = decideBatch(services, sends, snapshot)
  const limitAndRecord = Effect.gen(function* () {
    yield* applyDailyLimit(services, at, decided)
    yield* reserveFloodWindows(services, decided)
    yield* completeKnown(services, decided)
    const prepared = prepareNew(services, at, keys, decided)
    if (prepared.length > 0) return yield* recordBatch(services, { at, decided, prepared })
    // The sends that they follow were refused, so they are decided again.
    services.queue.unshift(
      ...decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send),
    )
  })
  yield* Effect.tapCause(limitAndRecord, () =>
    Effect.sync(() => {
      for (const { decision, send } of decided) {
        if (isNew(decision)) cancelCode(services, messageIdOf(send, decision))
      }
    }),
  )
})

type BatchError = Effect.Error<ReturnType<typeof acceptBatch>>

/** Refuses sends whose acceptance batch failed. */
const refuseBatch = (
  services: AcceptanceServices,
  sends: ReadonlyArray<PendingSend>,
  error: BatchError,
): Effect.Effect<void> => {
  const isRejected = error._tag === 'StorageRejected'
  // The ledger certainly recorded nothing. Otherwise reservations are left to expire: a repeat may need them.
  const isUndone = isRejected || (error._tag === 'StorageUnavailable' && error.reason === 'conflict')
  const unused: Array<SendReservation> = []
  for (const send of sends) {
    const { checked } = send
    const messageId = send.messageId ?? checked.messageId
    if (isUndone && send.reserved && messageId !== null && Result.isSuccess(checked.draft)) {
      unused.push(reservationOf(checked, checked.draft.success, messageId))
    }
    if (!isUndone) send.request.outcomeUncertain = true
    services.pending.refuse(send, isRejected ? apiError('invalid_parameter') : STORAGE_DOWN)
  }
  return Effect.andThen(
    releaseInBackground(services, unused),
    Effect.logError(
      isRejected
        ? 'acceptor: PostgreSQL rejected the data of a send; the send is refused'
        : 'acceptor: an acceptance batch was not recorded; its sends are refused',
    ).pipe(Effect.annotateLogs({ sends: sends.length, error: error._tag, ...fieldsOf(error) })),
  )
}

/** Does not fail. Afterwards every send has an outcome, is queued again or is being published. */
const acceptOrSplit = (
  services: AcceptanceServices,
  sends: ReadonlyArray<PendingSend>,
): Effect.Effect<void> =>
  acceptBatch(services, sends).pipe(
    Effect.catch((error) => {
      const open = sends.filter((send) => send.outcome === null && !services.codes.hasJoined(send))
      if (error._tag !== 'StorageRejected' || open.length <= 1) return refuseBatch(services, open, error)
      const middle = Math.ceil(open.length / 2)
      return Effect.andThen(
        acceptOrSplit(services, open.slice(0, middle)),
        acceptOrSplit(services, open.slice(middle)),
      )
    }),
  )

/** Refuses sends whose acceptance batch ended with a defect. */
const refuseUnexpected = (
  { pending }: AcceptanceServices,
  sends: ReadonlyArray<PendingSend>,
  cause: Cause.Cause<never>,
): Effect.Effect<void> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
  for (const send of sends) {
    send.request.outcomeUncertain = true
    pending.refuse(send, apiError('internal_error'))
  }
  return Effect.logError('acceptor: an acceptance batch failed unexpectedly; its sends are refused', cause)
}

/** The fields of an error that may be logged. */
const fieldsOf = (error: object): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const name of ['reason', 'detail', 'code', 'constraint', 'purpose']) {
    const value = (error as Record<string, unknown>)[name]
    if (typeof value === 'string') out[name] = value
  }
  return out
}

const make = Effect.fnUntraced(function* (options: AcceptorOptions) {
  const ledger = yield* Ledger
  const scope = yield* Effect.scope
  const runInBackground = (work: Effect.Effect<void>) => Effect.asVoid(Effect.forkIn(work, scope))

  let batchesInProgress = 0
  let sendsInProgress = 0
  /** Called when the last send has its outcome and the last record is published. Used when the process ends. */
  let onIdle = (): void => {}
  const checkIdle = (): void => {
    if (pending.count() === 0 && batchesInProgress === 0 && publisher.isIdle()) onIdle()
  }
  const pending = makePendingSends(() => checkIdle())
  const codes = makeCodesInProgress(pending)
  const publisher = yield* makePublisher({ codes, runInBackground, onPublished: () => checkIdle() })
  const queue: Array<PendingSend> = []
  const services: AcceptanceServices = {
    ...options,
    ledger,
    limits: yield* Limits,
    encryption: yield* PayloadEncryption,
    tracing: yield* Tracing,
    queue,
    pending,
    codes,
    publisher,
    runInBackground,
  }

  const canStart = yield* Latch.make(false)
  /**
   * An acceptance batch costs the same for one send as for fifty. So a second one starts only if at least half as many sends
   * wait as are in progress. The others wait at most until the first one ends.
   */
  const isWorthStarting = () =>
    queue.length > 0 && (batchesInProgress === 0 || 2 * queue.length >= sendsInProgress)
  const wake = (): void => {
    if (isWorthStarting()) canStart.openUnsafe()
    else canStart.closeUnsafe()
  }

  const acceptLoop = Effect.gen(function* () {
    yield* canStart.await
    // Sends that arrived in the same turn of the event loop join this batch.
    yield* Effect.yieldNow
    if (!isWorthStarting()) return wake()
    const sends = takeBatch(queue)
    if (sends.length === 0) return wake()
    batchesInProgress++
    sendsInProgress += sends.length
    wake()
    const startedAt = yield* Clock.currentTimeMillis
    yield* acceptOrSplit(services, sends).pipe(
      Effect.catchCause((cause) => refuseUnexpected(services, sends, cause)),
    )
    batchesInProgress--
    sendsInProgress -= sends.length
    checkIdle()
    wake()
    yield* Metric.update(acceptanceBatchSends, sends.length)
    yield* Metric.update(acceptanceBatchSeconds, ((yield* Clock.currentTimeMillis) - startedAt) / 1000)
    yield* Metric.update(waitingSends, pending.count())
  })

  const expire = Effect.map(Clock.currentTimeMillis, (now) => pending.expire(now))

  /** Deletes appended outbox rows if no acceptance batch does it. Otherwise the relay would append them again. */
  const deleteAppendedRows = Effect.suspend(() => {
    if (batchesInProgress > 0) return Effect.void
    const rows = publisher.takeAppendedRows()
    if (rows.length === 0) return Effect.void
    return ledger
      .deleteOutboxRows(rows)
      .pipe(
        Effect.catch((error) =>
          Effect.logWarning(
            'acceptor: appended outbox rows were not deleted; the relay appends them again',
          ).pipe(Effect.annotateLogs({ rows: rows.length, error: error._tag })),
        ),
      )
  })

  for (let i = 0; i < BATCHES_IN_PROGRESS; i++) yield* Effect.forkScoped(Effect.forever(acceptLoop))
  yield* Effect.forkScoped(Effect.forever(publisher.loop))
  yield* Effect.forkScoped(Effect.repeat(expire, Schedule.spaced(HOUSEKEEPING_EVERY)))
  yield* Effect.forkScoped(Effect.repeat(deleteAppendedRows, Schedule.spaced(HOUSEKEEPING_EVERY)))

  // Runs before the loops are interrupted. No new send arrives: the listener is already closed.
  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      onIdle = () => resume(Effect.void)
      checkIdle()
    }).pipe(
      Effect.timeoutOrElse({
        duration: DRAIN_WITHIN,
        orElse: () =>
          Effect.logWarning('acceptor: sends were still in progress at the end; the relay publishes them'),
      }),
      Effect.andThen(deleteAppendedRows),
    ),
  )

  return BatchingAcceptor.of({
    accept: Effect.fnUntraced(function* (sends, context = {}) {
      if (!pending.hasRoomFor(sends.length)) {
        return {
          outcomes: sends.map(() => Result.fail(OVERLOADED)),
          batchCreatedAt: null,
          responseStored: false,
        }
      }
      const request = pending.open(sends, context, yield* Clock.currentTimeMillis)
      queue.push(...request.sends)
      wake()
      yield* Deferred.await(request.done)
      const outcomes = request.sends.map(({ outcome }) => outcome ?? Result.fail(NOT_QUEUED))
      yield* sealPendingBatch(services, request, outcomes)
      const batchExists = context.batch !== undefined && (request.sealed || request.recorded)
      return {
        outcomes,
        batchCreatedAt: batchExists ? request.createdAt : null,
        responseStored: request.responseStored,
      }
    }),
  })
})

export const acceptorLayer = (
  options: AcceptorOptions,
): Layer.Layer<BatchingAcceptor, never, Ledger | EventLog | PayloadEncryption | OutboxMode | Limits> =>
  Layer.effect(BatchingAcceptor, make(options))
