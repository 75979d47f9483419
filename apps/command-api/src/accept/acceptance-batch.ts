/**
 * Runs one acceptance batch: steps 1 to 4 (see `acceptor.ts`), and their failures.
 *
 * If PostgreSQL rejects the data of the batch, it is halved until the send at fault is alone.
 */
import { type ApiError, apiError } from '@hub/contract'
import { Cause, Clock, Effect, Result } from 'effect'
import { type AcceptorContext, cancelOtp, releaseInBackground } from './acceptor-context.ts'
import {
  applyDailyLimit,
  completeKnown,
  ledgerQueryOf,
  messageIdOf,
  refuseWithoutKey,
  registerDecisions,
  reserveFloodWindows,
  withdrawLate,
} from './decide-and-limit.ts'
import { isNew } from './decide.ts'
import { NOT_QUEUED, RECORD_UNKNOWN, STORAGE_DOWN } from './errors.ts'
import type { SendReservation } from './limits.ts'
import { payloadKeys, prepareNew } from './prepare.ts'
import { recordAcceptanceBatch } from './record.ts'
import type { PendingSend } from './request.ts'
import { type Batch, isIn, isUnrecorded } from './send.ts'

/** Steps 1 to 4 of an acceptance batch. */
const runSteps = Effect.fnUntraced(function* (acceptor: AcceptorContext, sends: ReadonlyArray<PendingSend>) {
  const keys = yield* payloadKeys(acceptor.encryption, sends)
  const snapshot = yield* acceptor.ledger.lookup(ledgerQueryOf(sends))
  const { at } = snapshot
  const decided = registerDecisions(acceptor, sends, snapshot)
  const limitAndRecord = Effect.gen(function* () {
    refuseWithoutKey(acceptor, keys, decided)
    yield* applyDailyLimit(acceptor, at, decided)
    yield* reserveFloodWindows(acceptor, decided)
    yield* completeKnown(acceptor, decided)
    const unused = withdrawLate(acceptor, yield* Clock.currentTimeMillis, decided)
    yield* releaseInBackground(acceptor, unused)
    const prepared = prepareNew(acceptor, at, keys, decided)
    if (prepared.length > 0) return yield* recordAcceptanceBatch(acceptor, { at, decided, prepared })
    // The sends that they follow were refused, so they are decided again.
    acceptor.decideAgain(decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send))
  })
  yield* Effect.onError(limitAndRecord, () =>
    Effect.sync(() => {
      for (const { decision, send } of decided) {
        if (isNew(decision)) cancelOtp(acceptor, messageIdOf(send, decision))
      }
    }),
  )
})

type AcceptanceBatchError = Effect.Error<ReturnType<typeof runSteps>>

/** An earlier commit may have recorded the send. A recorded code is refunded, and never published. */
const refusalOf = ({ checked, recordedBefore }: PendingSend, isRejected: boolean): ApiError => {
  if (recordedBefore !== null) return checked.class === 'otp' ? NOT_QUEUED : RECORD_UNKNOWN
  return isRejected ? apiError('invalid_parameter') : STORAGE_DOWN
}

/** Refuses sends whose acceptance batch failed. */
const refuseAcceptanceBatch = (
  acceptor: AcceptorContext,
  sends: ReadonlyArray<PendingSend>,
  error: AcceptanceBatchError,
): Effect.Effect<void> => {
  const isRejected = error._tag === 'StorageRejected'
  const unused: Array<SendReservation> = []
  for (const send of sends) {
    // Certainly nothing was recorded, unless an earlier commit has recorded the send.
    if (send.recordedBefore === null && send.reservation !== null) unused.push(send.reservation)
    acceptor.unresolved.refuse(send, refusalOf(send, isRejected))
  }
  return Effect.andThen(
    releaseInBackground(acceptor, unused),
    Effect.logError(
      isRejected
        ? 'acceptor: PostgreSQL rejected the data of a send; the send is refused'
        : 'acceptor: an acceptance batch was not recorded; its sends are refused',
    ).pipe(Effect.annotateLogs({ sends: sends.length, error: error._tag, ...fieldsOf(error) })),
  )
}

/** Accepts the sends in one batch, or in halves of it if PostgreSQL rejects the data of a send. */
const runOrSplit = (
  acceptor: AcceptorContext,
  batch: Batch,
  sends: ReadonlyArray<PendingSend>,
): Effect.Effect<void> =>
  runSteps(acceptor, sends).pipe(
    Effect.catch((error) => {
      const open: Array<PendingSend> = []
      for (const send of sends) {
        if (!isIn(batch, send)) continue
        send.retry()
        if (send.outcome === null) open.push(send)
        else acceptor.unresolved.abandon(send)
      }
      if (error._tag !== 'StorageRejected' || open.length <= 1)
        return refuseAcceptanceBatch(acceptor, open, error)
      const middle = Math.ceil(open.length / 2)
      return Effect.andThen(
        runOrSplit(acceptor, batch, open.slice(0, middle)),
        runOrSplit(acceptor, batch, open.slice(middle)),
      )
    }),
  )

/** Refuses sends whose acceptance batch ended with a defect. */
const refuseUnexpected = (
  sends: ReadonlyArray<PendingSend>,
  cause: Cause.Cause<never>,
): Effect.Effect<void> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
  for (const send of sends) {
    send.request.doubt()
    // A defect after the commit leaves recorded messages behind.
    send.finish(Result.fail(isUnrecorded(send) ? apiError('internal_error') : RECORD_UNKNOWN))
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

/** Never fails. Afterwards every send has an outcome, is queued again or is being published. */
export const runAcceptanceBatch = (
  acceptor: AcceptorContext,
  batch: Batch,
  sends: ReadonlyArray<PendingSend>,
): Effect.Effect<void> =>
  runOrSplit(acceptor, batch, sends).pipe(Effect.catchCause((cause) => refuseUnexpected(sends, cause)))
