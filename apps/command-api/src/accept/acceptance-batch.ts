/**
 * Runs one acceptance batch: steps 1 to 4 (see `acceptor.ts`), and their failures.
 *
 * If PostgreSQL rejects the data of the batch, it is halved until the send at fault is alone.
 */
import { apiError } from '@hub/contract'
import { Cause, Effect, Result } from 'effect'
import { type AcceptorContext, cancelOtp, releaseInBackground } from './acceptor-context.ts'
import {
  applyDailyLimit,
  completeKnown,
  ledgerQueryOf,
  messageIdOf,
  registerDecisions,
  reserveFloodWindows,
} from './decide-and-limit.ts'
import { isNew } from './decide.ts'
import { reservationOf, type SendReservation } from './limits.ts'
import { type PendingSend, STORAGE_DOWN } from './pending-send.ts'
import { payloadKeys, prepareNew } from './prepare.ts'
import { recordAcceptanceBatch } from './record.ts'

/** Steps 1 to 4 of an acceptance batch. */
const runSteps = Effect.fnUntraced(function* (acceptor: AcceptorContext, sends: ReadonlyArray<PendingSend>) {
  const keys = yield* payloadKeys(acceptor.encryption, sends)
  const snapshot = yield* acceptor.ledger.lookup(ledgerQueryOf(sends))
  const { at } = snapshot
  const decided = registerDecisions(acceptor, sends, snapshot)
  const limitAndRecord = Effect.gen(function* () {
    yield* applyDailyLimit(acceptor, at, decided)
    yield* reserveFloodWindows(acceptor, decided)
    yield* completeKnown(acceptor, decided)
    const prepared = prepareNew(acceptor, at, keys, decided)
    if (prepared.length > 0) return yield* recordAcceptanceBatch(acceptor, { at, decided, prepared })
    // The sends that they follow were refused, so they are decided again.
    acceptor.queue.unshift(
      ...decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send),
    )
  })
  yield* Effect.tapCause(limitAndRecord, () =>
    Effect.sync(() => {
      for (const { decision, send } of decided) {
        if (isNew(decision)) cancelOtp(acceptor, messageIdOf(send, decision))
      }
    }),
  )
})

type AcceptanceBatchError = Effect.Error<ReturnType<typeof runSteps>>

/** Refuses sends whose acceptance batch failed. */
const refuseAcceptanceBatch = (
  acceptor: AcceptorContext,
  sends: ReadonlyArray<PendingSend>,
  error: AcceptanceBatchError,
): Effect.Effect<void> => {
  const isRejected = error._tag === 'StorageRejected'
  // Certainly nothing was recorded. Otherwise a repeat may need the reservations: they expire.
  const isUndone = isRejected || (error._tag === 'StorageUnavailable' && error.reason === 'conflict')
  const unused: Array<SendReservation> = []
  for (const send of sends) {
    const { checked } = send
    const messageId = send.messageId ?? checked.messageId
    if (isUndone && send.reserved && messageId !== null && Result.isSuccess(checked.draft)) {
      unused.push(reservationOf(checked, checked.draft.success, messageId))
    }
    if (!isUndone) send.request.outcomeUncertain = true
    acceptor.pending.refuse(send, isRejected ? apiError('invalid_parameter') : STORAGE_DOWN)
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
const runOrSplit = (acceptor: AcceptorContext, sends: ReadonlyArray<PendingSend>): Effect.Effect<void> =>
  runSteps(acceptor, sends).pipe(
    Effect.catch((error) => {
      const open = sends.filter((send) => send.outcome === null && !acceptor.otpInProgress.hasJoined(send))
      if (error._tag !== 'StorageRejected' || open.length <= 1)
        return refuseAcceptanceBatch(acceptor, open, error)
      const middle = Math.ceil(open.length / 2)
      return Effect.andThen(
        runOrSplit(acceptor, open.slice(0, middle)),
        runOrSplit(acceptor, open.slice(middle)),
      )
    }),
  )

/** Refuses sends whose acceptance batch ended with a defect. */
const refuseUnexpected = (
  { pending }: AcceptorContext,
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

/** Never fails. Afterwards every send has an outcome, is queued again or is being published. */
export const runAcceptanceBatch = (
  acceptor: AcceptorContext,
  sends: ReadonlyArray<PendingSend>,
): Effect.Effect<void> =>
  runOrSplit(acceptor, sends).pipe(Effect.catchCause((cause) => refuseUnexpected(acceptor, sends, cause)))
