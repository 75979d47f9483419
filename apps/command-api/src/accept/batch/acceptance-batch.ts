/**
 * Runs one acceptance batch: steps 1 to 4 (see `acceptor.ts`), and their failures.
 *
 * If PostgreSQL rejects the data of the batch, it is halved until the send at fault is alone.
 */
import { type ApiError, apiError } from '@hub/contract'
import { Outbox } from '@hub/outbox'
import { PayloadEncryption } from '@hub/store'
import { Tracing } from '@hub/telemetry'
import { Cause, Clock, Effect, Result } from 'effect'
import { commitId, type MakeId } from '../../ids/ids.ts'
import type { Corrections } from '../recovery/corrections.ts'
import {
  applyDailyLimit,
  beginRecording,
  completeKnown,
  type DecidedSend,
  ledgerQueryOf,
  messageIdOf,
  refuseWithoutKey,
  registerDecisions,
  reserveFloodWindows,
} from './decide-and-limit.ts'
import { isNew } from './decide.ts'
import { NOT_QUEUED, RECORD_UNKNOWN, STORAGE_DOWN } from '../errors.ts'
import { Ledger } from '../ledger/ledger.port.ts'
import { SendLimits, type SendReservation } from './limits.ts'
import type { OtpInProgress } from './otp-in-progress.ts'
import { payloadKeys, prepareNew, type PrepareOptions } from './prepare.ts'
import type { Publication } from './publish.ts'
import { completeRecorded, leaveUnresolved, recordAcceptanceBatch } from './record.ts'
import { dropSend, refuseSend } from './refuse-send.ts'
import type { PendingSend } from '../request.ts'
import type { Reservations } from './reservations.ts'
import { type Batch, isIn, isUnrecorded } from '../send.ts'
import type { UnresolvedCommit } from '../recovery/unresolved-commits.ts'

/** What an acceptance batch leaves to others. */
interface BatchResult {
  /** Sends to be decided again. */
  readonly again: ReadonlyArray<PendingSend>
  readonly publication: Publication | null
  readonly unresolved: UnresolvedCommit | null
}

interface AcceptanceBatchOptions extends PrepareOptions {
  readonly makeMessageId: MakeId
  readonly corrections: Corrections
  readonly otpInProgress: OtpInProgress
  readonly reservations: Reservations
}

/** An earlier commit may have recorded the send. A recorded code is refunded, and never published. */
const refusalOf = ({ checked, recordedBefore }: PendingSend, isRejected: boolean): ApiError => {
  if (recordedBefore !== null) return checked.class === 'otp' ? NOT_QUEUED : RECORD_UNKNOWN
  return isRejected ? apiError('invalid_parameter') : STORAGE_DOWN
}

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

export const makeAcceptanceBatches = Effect.fnUntraced(function* (options: AcceptanceBatchOptions) {
  const { corrections, makeMessageId, otpInProgress, reservations, topics } = options
  const encryption = yield* PayloadEncryption
  const ledger = yield* Ledger
  const limits = yield* SendLimits
  const outbox = yield* Outbox
  const tracing = yield* Tracing

  /** The codes that are not published after all. Returns the sends that joined them. */
  const cancel = (decided: ReadonlyArray<DecidedSend>): ReadonlyArray<PendingSend> =>
    decided.flatMap(({ decision, send }) =>
      isNew(decision) ? otpInProgress.cancel(messageIdOf(send, decision)) : [],
    )

  /** Steps 1 to 4. `again` also gets the sends that must be decided again after a failure. */
  const runSteps = Effect.fnUntraced(function* (
    sends: ReadonlyArray<PendingSend>,
    again: Array<PendingSend>,
  ) {
    const keys = yield* payloadKeys(encryption, sends)
    const snapshot = yield* ledger.lookup(ledgerQueryOf(sends))
    const { at } = snapshot
    let decided = registerDecisions(makeMessageId, otpInProgress, sends, snapshot)
    /** Takes over the decisions after a limit. Codes that it refuses are not published. */
    const limit = (next: ReadonlyArray<DecidedSend>): void => {
      again.push(...cancel(decided.filter((_, i) => !isNew(next[i]!.decision))))
      decided = next
    }
    return yield* Effect.gen(function* () {
      limit(refuseWithoutKey(keys, decided))
      limit(yield* applyDailyLimit(limits, at, decided))
      limit(yield* reserveFloodWindows(limits, decided))
      reservations.release(completeKnown(corrections, decided))
      const recording = beginRecording(corrections, yield* Clock.currentTimeMillis, decided)
      limit(recording.decided)
      reservations.release(recording.unused)
      const batch = { at, decided, prepared: prepareNew(options, at, keys, decided) }
      if (batch.prepared.length === 0) {
        // The sends that they follow were refused, so they are decided again.
        again.push(...decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send))
        return { publication: null, unresolved: null }
      }
      const id = commitId(yield* Clock.currentTimeMillis)
      const recorded = yield* recordAcceptanceBatch({ ledger, outbox, topics, tracing }, id, batch)
      if (recorded === null) {
        const left = leaveUnresolved(otpInProgress, id, batch)
        again.push(...left.again)
        return { publication: null, unresolved: left.unresolved }
      }
      const left = completeRecorded(otpInProgress, batch, recorded)
      again.push(...left.again)
      reservations.confirm(left.accepted, at)
      reservations.release(left.unused)
      return { publication: left.publication, unresolved: null }
    }).pipe(Effect.onError(() => Effect.sync(() => again.push(...cancel(decided)))))
  })
  type AcceptanceBatchError = Effect.Error<ReturnType<typeof runSteps>>

  /** Refuses sends whose acceptance batch failed. */
  const refuseAll = (sends: ReadonlyArray<PendingSend>, error: AcceptanceBatchError): Effect.Effect<void> => {
    const isRejected = error._tag === 'StorageRejected'
    const unused: Array<SendReservation> = []
    for (const send of sends) {
      // Certainly nothing was recorded, unless an earlier commit has recorded the send.
      if (send.recordedBefore === null && send.reservation !== null) unused.push(send.reservation)
      refuseSend(corrections, send, refusalOf(send, isRejected))
    }
    reservations.release(unused)
    return Effect.logError(
      isRejected
        ? 'acceptor: PostgreSQL rejected the data of a send; the send is refused'
        : 'acceptor: an acceptance batch was not recorded; its sends are refused',
    ).pipe(Effect.annotateLogs({ sends: sends.length, error: error._tag, ...fieldsOf(error) }))
  }

  /**
   * Runs an acceptance batch, or halves of it if PostgreSQL rejects the data of a send. Never fails.
   * Afterwards every send has an outcome, or is in the results.
   */
  const run = (
    batch: Batch,
    sends: ReadonlyArray<PendingSend>,
  ): Effect.Effect<ReadonlyArray<BatchResult>> => {
    const again: Array<PendingSend> = []
    return runSteps(sends, again).pipe(
      Effect.map((result) => [{ ...result, again }]),
      Effect.catch((error) => {
        const failed = { again, publication: null, unresolved: null }
        const open: Array<PendingSend> = []
        for (const send of sends) {
          if (!isIn(batch, send)) continue
          send.retry()
          if (send.outcome === null) open.push(send)
          else dropSend(corrections, send)
        }
        if (error._tag !== 'StorageRejected' || open.length <= 1)
          return Effect.as(refuseAll(open, error), [failed])
        const middle = Math.ceil(open.length / 2)
        return Effect.map(
          Effect.forEach([open.slice(0, middle), open.slice(middle)], (half) => run(batch, half)),
          (results) => [failed, ...results.flat()],
        )
      }),
      Effect.catchCause((cause) =>
        Effect.as(refuseUnexpected(sends, cause), [{ again, publication: null, unresolved: null }]),
      ),
    )
  }
  return run
})
