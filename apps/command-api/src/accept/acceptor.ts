/**
 * The batching acceptor: records many sends in one transaction and appends them to Kafka in one
 * produce (group commit).
 *
 * A send is checked and rendered first (`check/`). Then it waits, not for a timer, but
 * only until an acceptance batch in progress has been recorded. The next acceptance batch contains
 * all sends that arrived meanwhile, in the order of `batch/send-queue.ts`. So an idle hub answers at once,
 * and a busy hub shares the cost of a commit. Admission control (`admission/`) bounds the wait.
 *
 * The steps of an acceptance batch (`batch/acceptance-batch.ts`):
 *   1. `ledger/ledger.ts` looks up used `client_ref`s, remembered ids, opt-outs and PostgreSQL's clock.
 *   2. `batch/decide-and-limit.ts` decides each send (`batch/decide.ts`): new, repeat or refused. New sends then
 *      pass the daily limit and the flood windows.
 *   3. `batch/prepare.ts` encrypts and encodes what is new.
 *   4. `batch/record.ts` commits it. A `service` message is accepted now: it cannot be lost. If another
 *      process took a `client_ref` meanwhile, the send waits for the next acceptance batch, where
 *      it is a repeat.
 *   5. `batch/publish.ts` appends it to Kafka, while the next acceptance batch is already being recorded.
 *      An acknowledgement accepts codes. After a failure the relay appends the outbox rows. Codes
 *      get `provider_unavailable`, with an unknown outcome if Kafka may contain them, and a repeat
 *      publishes the same id again.
 *   6. `batch/seal-batch.ts` seals batches whose last outcome became known outside of a commit.
 *
 * Some calls succeed although they are reported as failed. The result of a commit that timed out is
 * found out by `recovery/unresolved-commits.ts`, that of an append by the reconciler. After an append that
 * timed out, the repeat appends the same id again, and readers drop it. A reservation is made once
 * per id, and expires if nobody confirms it. `recovery/corrections.ts` repeats refunds and seals that failed.
 */
import type { EventLog, TopicNames } from '@hub/kafka'
import type { Lifetimes } from '@hub/domain'
import { Outbox } from '@hub/outbox'
import type { PayloadEncryption } from '@hub/store'
import {
  Clock,
  Context,
  Deferred,
  Duration,
  Effect,
  Fiber,
  FiberSet,
  Latch,
  Layer,
  Metric,
  Result,
} from 'effect'
import { acceptanceBatchSeconds, acceptanceBatchSends, pendingSends } from '../metrics.ts'
import type { MakeId } from '../ids/ids.ts'
import { makeAcceptanceBatches } from './batch/acceptance-batch.ts'
import type { CheckedSend } from './check/checked-send.ts'
import { makeCorrections } from './recovery/corrections.ts'
import { RECORD_UNKNOWN, STORAGE_DOWN } from './errors.ts'
import { Ledger } from './ledger/ledger.port.ts'
import type { SendLimits } from './batch/limits.ts'
import { makeOtpInProgress } from './batch/otp-in-progress.ts'
import { refuseOverloaded } from './admission/overloaded.ts'
import { makePublisher } from './batch/publish.ts'
import { dropSend } from './batch/refuse-send.ts'
import { makePendingRequests, type PendingSend, type RequestContext } from './request.ts'
import { makeReservations } from './batch/reservations.ts'
import { sealPendingBatch } from './batch/seal-batch.ts'
import type { Slices } from './admission/slices.ts'
import type { Batch, SendOutcome } from './send.ts'
import { makeSendQueue, type Taken } from './batch/send-queue.ts'
import {
  begun,
  ended,
  gathersFirst,
  inProgress,
  nextBatch,
  NO_BATCHES,
  type Waiting,
} from './batch/start-rule.ts'
import type { UnprovenCodes } from './recovery/unproven-codes.ts'
import { makeUnresolvedCommits } from './recovery/unresolved-commits.ts'

/**
 * Sends of one acceptance batch, and requests with such a send. Nothing else runs while the process
 * encodes the sends and answers the requests, which takes some ten milliseconds. More would delay the
 * sends behind them, and the refusals.
 */
const ACCEPTANCE_BATCH_SENDS = 1000
const ACCEPTANCE_BATCH_REQUESTS = 150
/** Bytes of one acceptance batch. They bound the outbox row and the produce, whatever the texts. */
const ACCEPTANCE_BATCH_BYTES = 4 * 1024 * 1024
/**
 * How long an acceptance batch of few sends waits for more, if the last one had several sends or others
 * arrived meanwhile. It costs the same for one send as for fifty. A code ends the wait, and the sends of
 * a client that waits for each answer never begin one.
 */
export const ACCEPTANCE_GATHER = Duration.millis(8)
/** How often the acceptor expires waiting sends, while some wait. */
const EXPIRE_EVERY = Duration.millis(100)
/** Time to publish what is recorded when the process ends, and for confirmations and refunds. */
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
     * Accepts the sends of one request. Never fails, and returns within 3 s, or 10 s for a batch. A
     * failure of the hub is an outcome too (`internal_error` or `provider_unavailable`, with
     * `retry_after`): the hub never submits the message afterwards, unless the error says that its
     * outcome is unknown.
     */
    readonly accept: (
      sends: ReadonlyArray<CheckedSend>,
      context?: RequestContext,
    ) => Effect.Effect<AcceptanceResult>
  }
>()('@hub/command-api/BatchingAcceptor') {}

export interface AcceptorOptions {
  readonly topics: TopicNames
  readonly lifetimes: Lifetimes
  readonly makeMessageId: MakeId
  /** Runs the work of this process in its event loop. */
  readonly slices: Slices
  /**
   * How long an acceptance batch of few sends waits for more. `ACCEPTANCE_GATHER` is for production.
   */
  readonly gather: Duration.Duration
}

/** Estimated bytes of a send in ledger and record: twice its text, and its other fields. */
const bytesOf = ({ checked: { draft } }: PendingSend): number =>
  Result.isSuccess(draft) ? 600 + 4 * draft.success.rendered.text.length : 100

const make = Effect.fnUntraced(function* (options: AcceptorOptions) {
  const ledger = yield* Ledger
  const scope = yield* Effect.scope
  // Created first, so they end last: work in the background goes on while the process drains.
  const fork = yield* FiberSet.makeRuntime<never>()
  const reservations = yield* makeReservations

  let batches = NO_BATCHES
  /** When it was last checked whether acceptance batches take long, milliseconds. */
  let checkedAt = 0
  const isRecordingNothing = (): boolean => inProgress(batches) === 0
  /** Called when no send waits and no record is unpublished. Used when the process ends. */
  let onIdle = (): void => {}
  const checkIdle = (): void => {
    if (pending.count() === 0 && isRecordingNothing() && publisher.isIdle()) onIdle()
  }
  const corrections = yield* makeCorrections({
    ledger,
    outbox: yield* Outbox,
    topics: options.topics,
  })
  const pending = makePendingRequests({
    slices: options.slices,
    onRequestDone: () => checkIdle(),
    onUncertainSettled: ({ context: { batch } }) => {
      if (batch !== undefined) corrections.seal(batch.id)
    },
  })
  const otpInProgress = makeOtpInProgress()
  const publisher = yield* makePublisher({
    corrections,
    otpInProgress,
    reservations,
    onPublished: () => checkIdle(),
  })
  const queue = makeSendQueue({
    sends: ACCEPTANCE_BATCH_SENDS,
    requests: ACCEPTANCE_BATCH_REQUESTS,
    bytes: ACCEPTANCE_BATCH_BYTES,
    bytesOf,
  })
  /** Puts sends first into the queue. */
  const decideAgain = (sends: ReadonlyArray<PendingSend>): void => {
    for (const send of sends) send.again()
    queue.pushFirst(sends)
    wake()
  }
  const unresolved = makeUnresolvedCommits({ corrections, decideAgain, fork, ledger, reservations })
  const runAcceptanceBatch = yield* makeAcceptanceBatches({
    ...options,
    corrections,
    otpInProgress,
    reservations,
  })

  const waiting = (): Waiting => ({ codes: queue.count('codes'), others: queue.count('others') })
  const next = (): Taken | null => nextBatch(waiting(), batches, checkedAt)
  const mustGather = (): boolean => !Duration.isZero(options.gather) && gathersFirst(waiting(), batches)

  /** Open while sends wait for their outcome, as of the last check. */
  const sendsWait = yield* Latch.make(false)
  const canStart = yield* Latch.make(false)
  let isGathering = false
  const wake = (): void => {
    if (next() === null) canStart.closeUnsafe()
    else if (!mustGather()) canStart.openUnsafe()
    else if (!isGathering) {
      isGathering = true
      fork(gather)
    }
  }

  const gather = Effect.andThen(
    Effect.sleep(options.gather),
    Effect.sync(() => {
      isGathering = false
      if (next() !== null) canStart.openUnsafe()
    }),
  )

  /** A send that got its outcome meanwhile (it waited too long) must not be recorded. */
  const isOpen = (send: PendingSend): boolean => {
    if (send.outcome !== null) dropSend(corrections, send)
    return send.outcome === null
  }

  const runBatch = Effect.fnUntraced(function* (
    taken: Taken,
    batch: Batch,
    sends: ReadonlyArray<PendingSend>,
  ) {
    for (const { again, publication, unresolved: commit } of yield* runAcceptanceBatch(batch, sends)) {
      if (commit !== null) unresolved.add(commit)
      if (publication !== null) publisher.push(publication)
      decideAgain(again)
    }
    batches = ended(batches, taken, sends.length, waiting())
    checkIdle()
    wake()
    yield* Metric.update(acceptanceBatchSends, sends.length)
    yield* Metric.update(acceptanceBatchSeconds, ((yield* Clock.currentTimeMillis) - batch.begunAt) / 1000)
    yield* Metric.update(pendingSends, pending.count())
  })

  /** Starts all acceptance batches that are worth it. */
  const startBatches = Effect.gen(function* () {
    yield* canStart.await
    // Sends that arrived in the same turn of the event loop join this batch.
    yield* Effect.yieldNow
    const begunAt = yield* Clock.currentTimeMillis
    for (let taken = next(); taken !== null; taken = next()) {
      const sends = queue.take(taken, begunAt, isOpen)
      if (sends.length === 0) continue
      const batch: Batch = { begunAt }
      for (const send of sends) send.begin(batch)
      batches = begun(batches, taken, sends.length, begunAt)
      fork(runBatch(taken, batch, sends))
    }
    wake()
  })

  const expire = Effect.map(Clock.currentTimeMillis, (now) => {
    pending.expire(now)
    checkedAt = now
    if (pending.count() === 0) sendsWait.closeUnsafe()
    wake()
  })

  yield* Effect.forkScoped(Effect.forever(startBatches))
  for (const loop of publisher.loops) yield* Effect.forkScoped(Effect.forever(loop))
  yield* Effect.forkScoped(
    Effect.forever(Effect.andThen(Effect.andThen(sendsWait.await, Effect.sleep(EXPIRE_EVERY)), expire)),
  )

  // Runs before the loops are interrupted. No new send arrives: the listener is already closed.
  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      onIdle = () => resume(Effect.void)
      checkIdle()
    }).pipe(
      Effect.andThen(reservations.ended),
      Effect.timeoutOrElse({
        duration: DRAIN_WITHIN,
        orElse: () =>
          Effect.logWarning(
            'acceptor: sends were still in progress at the end; the relay and the reconciler complete them',
          ),
      }),
    ),
  )

  return BatchingAcceptor.of({
    accept: Effect.fnUntraced(function* (sends, context = {}) {
      const error = unresolved.isFull()
        ? STORAGE_DOWN
        : pending.hasRoomFor(sends.length)
          ? null
          : refuseOverloaded('other', 'memory')
      if (error !== null) {
        return {
          outcomes: sends.map(() => Result.fail(error)),
          batchCreatedAt: null,
          responseStored: false,
        }
      }
      const request = pending.open(sends, context, yield* Clock.currentTimeMillis)
      sendsWait.openUnsafe()
      queue.push(request)
      wake()
      if (context.batch === undefined) yield* Deferred.await(request.done)
      else {
        // In the scope of the process: a client that disconnects must not leave its batch open.
        const sealed = Effect.gen(function* () {
          yield* Deferred.await(request.done)
          const outcomes = request.outcomes(RECORD_UNKNOWN)
          const publication = yield* sealPendingBatch(ledger, options.topics, request, outcomes)
          if (publication !== null) publisher.push(publication)
        })
        yield* Fiber.join(yield* Effect.forkIn(sealed, scope))
      }
      const batchExists = context.batch !== undefined && request.isInLedger
      return {
        outcomes: request.outcomes(RECORD_UNKNOWN),
        batchCreatedAt: batchExists ? request.createdAt : null,
        responseStored: request.isResponseStored,
      }
    }),
  })
})

export const acceptorLayer = (
  options: AcceptorOptions,
): Layer.Layer<
  BatchingAcceptor,
  never,
  Ledger | EventLog | PayloadEncryption | Outbox | SendLimits | UnprovenCodes
> => Layer.effect(BatchingAcceptor, make(options))
