/**
 * Step 4 of an acceptance batch: records the prepared sends in one transaction of the ledger, and
 * hands them to the publisher.
 *
 * The transaction also writes the outcome of a batch and the response under an idempotency key, if
 * it makes their last outcome known. A recorded `service` message is accepted. A recorded code is
 * accepted only when Kafka acknowledges it.
 */
import { apiError } from '@hub/contract'
import { encodeOutboxRow, type OutgoingRecord } from '@hub/kafka'
import { storageCrashPoint, type StorageError, type StorageUnavailable } from '@hub/store'
import type { TracingShape } from '@hub/telemetry'
import { commitId } from '../ids/ids.ts'
import { Clock, Effect, Result } from 'effect'
import { type AcceptorContext, cancelOtp, releaseInBackground } from './acceptor-context.ts'
import type { DecidedSend } from './decide-and-limit.ts'
import type { BatchRow, CommitResult, ExtraWrites, Unrecorded } from './ledger.port.ts'
import type { SendReservation } from './limits.ts'
import type { PreparedSend } from './prepared-send.ts'
import type { PendingRequest, PendingSend } from './request.ts'
import type { SendOutcome } from './send.ts'
import { batchSealedRecords } from './batch-sealed.ts'
import { batchOutcome } from './seal-batch.ts'

const SPEND_LIMIT_REACHED = apiError('spend_limit_reached')
const LOCK_LOST = apiError('idempotency_conflict')

const atRecorded = storageCrashPoint('command-api.recorded')

/** The content of one acceptance batch. */
export interface PreparedAcceptanceBatch {
  /** PostgreSQL's clock, milliseconds since the epoch. */
  readonly at: number
  readonly decided: ReadonlyArray<DecidedSend>
  readonly prepared: ReadonlyArray<PreparedSend>
}

const isRecorded = (unrecorded: Unrecorded, { view }: PreparedSend): boolean =>
  !unrecorded.takenElsewhere.has(view.id) &&
  !unrecorded.overspent.has(view.id) &&
  !unrecorded.lockLost.has(view.id)

/** A code of an earlier request stays in its batch: it is no member of the new one. */
const isMember = ({ duplicate }: PreparedSend): boolean => !duplicate

/**
 * The ledger charges before it knows which references are taken elsewhere. The charge of such a send
 * may leave room for a send that was refused. So if both occur, the refused sends are tried again.
 */
const isOverLimit = (unrecorded: Unrecorded, { view }: PreparedSend): boolean =>
  unrecorded.overspent.has(view.id) && unrecorded.takenElsewhere.size === 0

/** The outcomes that a commit makes known, by send. Codes get theirs from the publication. */
const outcomesOf = (
  unrecorded: Unrecorded,
  { decided, prepared }: PreparedAcceptanceBatch,
): ReadonlyMap<PendingSend, SendOutcome> => {
  const outcomes = new Map<PendingSend, SendOutcome>()
  for (const one of prepared) {
    if (isOverLimit(unrecorded, one)) outcomes.set(one.send, Result.fail(SPEND_LIMIT_REACHED))
    else if (unrecorded.lockLost.has(one.view.id)) outcomes.set(one.send, Result.fail(LOCK_LOST))
    else if (one.entry.fact.class === 'service' && isRecorded(unrecorded, one)) {
      outcomes.set(one.send, Result.succeed({ view: one.view, duplicate: false }))
    }
  }
  for (const { decision, send } of decided) {
    if (decision.type !== 'follow') continue
    const leader = outcomes.get(decided[decision.leader]!.send)
    if (leader !== undefined && Result.isSuccess(leader)) {
      outcomes.set(send, Result.succeed({ view: leader.success.view, duplicate: true }))
    }
  }
  return outcomes
}

/** What a commit makes known about whole requests, and the rows that it writes for them. */
interface RequestResults {
  readonly batches: Array<BatchRow>
  /** The rows of `batches` that are sealed. */
  readonly sealedBatches: Array<BatchRow & { readonly sealedAt: number }>
  readonly responses: Array<ExtraWrites['responses'][number]>
  readonly recorded: ReadonlySet<PendingRequest>
  readonly sealed: Array<PendingRequest>
  readonly responseStored: Array<PendingRequest>
}

const requestResultsOf = (batch: PreparedAcceptanceBatch, unrecorded: Unrecorded): RequestResults => {
  const { at, prepared } = batch
  const outcomes = outcomesOf(unrecorded, batch)
  const recorded = new Set(
    prepared.filter((one) => isMember(one) && isRecorded(unrecorded, one)).map(({ send }) => send.request),
  )
  const results: RequestResults = {
    batches: [],
    sealedBatches: [],
    responses: [],
    recorded,
    sealed: [],
    responseStored: [],
  }
  for (const request of new Set(prepared.filter(isMember).map(({ send }) => send.request))) {
    const { batch: newBatch, lock, response } = request.context
    if (newBatch === undefined && lock === undefined) continue
    const known = request.sends
      .map((send) => send.outcome ?? outcomes.get(send) ?? null)
      .filter((outcome) => outcome !== null)
    // After an uncertain outcome, the sweeper counts what the ledger contains.
    const isComplete = known.length === request.sends.length && !request.isUncertain
    const createdAt = request.createdAt ?? at
    if (newBatch !== undefined) {
      const outcome = batchOutcome(newBatch, known)
      // A batch with codes is sealed after Kafka has answered for all of them.
      if (isComplete && outcome.exists && outcome.otpAccepted === 0) {
        const row = { ...outcome, createdAt, sealedAt: at }
        results.batches.push(row)
        results.sealedBatches.push(row)
        results.sealed.push(request)
      } else if (recorded.has(request)) {
        results.batches.push({ ...outcome, createdAt, sealedAt: null })
      }
    }
    if (isComplete && lock !== undefined && response !== undefined) {
      const stored = response(known, createdAt)
      if (stored !== null) {
        results.responses.push({ lock, response: stored })
        results.responseStored.push(request)
      }
    }
  }
  return results
}

/** Records the acceptance batch, then completes or publishes its sends. */
export const recordAcceptanceBatch = Effect.fnUntraced(function* (
  acceptor: AcceptorContext,
  batch: PreparedAcceptanceBatch,
) {
  const { ledger, publisher, topics, tracing } = acceptor
  const { prepared } = batch
  const appendedRows = publisher.takeAppendedRows()
  const id = commitId(yield* Clock.currentTimeMillis)
  const result = yield* ledger
    .commit({
      id,
      accepted: prepared.filter(({ republished }) => !republished).map(({ entry }) => entry),
      republished: prepared.filter(({ republished }) => republished).map(({ entry }) => entry),
      extraWrites: (unrecorded) => {
        const results = requestResultsOf(batch, unrecorded)
        const sealRecords = batchSealedRecords(topics, results.sealedBatches)
        const records = prepared
          .filter((one) => one.entry.fact.class === 'service' && isRecorded(unrecorded, one))
          .map((one) => one.record)
        const all = [...records, ...sealRecords]
        return {
          outbox: all.length === 0 ? null : encodeOutboxRow(all),
          batches: results.batches,
          responses: results.responses,
          results,
          sealRecords,
        }
      },
      appendedRows,
    })
    .pipe(
      atRecorded,
      Effect.onError(() => Effect.sync(() => publisher.returnAppendedRows(appendedRows))),
      Effect.catchIf(isUnknown, (error) => Effect.as(leaveUnresolved(acceptor, id, batch, error), null)),
    )
  if (result === null) return
  // Before any send gets its outcome: a request reads these as soon as it is done.
  const { results, sealRecords } = result.extraWrites
  const { recorded, responseStored, sealed } = results
  for (const request of recorded) request.record()
  for (const request of sealed) request.seal()
  for (const request of responseStored) request.storeResponse()
  if (tracing.isOn) traceRecorded(tracing, recorded)
  yield* publishRecorded(acceptor, batch, result, sealRecords)
})

/**
 * PostgreSQL may have executed the commit. All other failures are certain: PostgreSQL reported the
 * end of the transaction, or no connection was open.
 */
const isUnknown = (error: StorageError): error is StorageUnavailable =>
  error._tag === 'StorageUnavailable' && error.reason !== 'conflict' && !NEVER_SENT.has(error.detail)

/** Codes of failed connection attempts: the statement was never sent. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
])

/** Leaves a commit with an unknown result to `unresolved-commits.ts`. Its sends are `Uncertain`. */
const leaveUnresolved = (
  acceptor: AcceptorContext,
  id: string,
  { decided, prepared }: PreparedAcceptanceBatch,
  { detail, reason }: StorageUnavailable,
) => {
  for (const { send, view } of prepared) {
    send.lose({ messageId: view.id, at: view.createdAt })
    cancelOtp(acceptor, view.id)
  }
  const followers = decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send)
  return Effect.andThen(
    acceptor.unresolved.add({ id, prepared, followers }),
    Effect.logWarning('acceptor: the result of a commit is unknown; the hub finds it out').pipe(
      Effect.annotateLogs({ commit: id, sends: prepared.length, reason, detail }),
    ),
  )
}

/** One span per request, from its arrival until its first sends were recorded. */
const traceRecorded = (tracing: TracingShape, recorded: ReadonlySet<PendingRequest>): void => {
  for (const { arrivedAt, context, sends } of recorded) {
    const trace = context.trace ?? null
    if (trace === null) continue
    tracing.record(tracing.childOf(trace.span), {
      name: 'record sends',
      kind: 'internal',
      startedAt: arrivedAt,
      attributes: { 'hub.sends': sends.length },
    })
  }
}

/** Completes decided sends, publishes recorded ones, and queues the others for the next batch. */
const publishRecorded = Effect.fnUntraced(function* (
  acceptor: AcceptorContext,
  batch: PreparedAcceptanceBatch,
  result: CommitResult,
  sealRecords: ReadonlyArray<OutgoingRecord>,
) {
  const { decideAgain, limits, publisher, runInBackground } = acceptor
  const outcomes = outcomesOf(result, batch)
  const otpSends: Array<PreparedSend> = []
  const outboxRecords: Array<OutgoingRecord> = []
  const accepted: Array<SendReservation> = []
  const unused: Array<SendReservation> = []
  const toDecideAgain: Array<PendingSend> = []
  for (const one of batch.prepared) {
    const { record, reservation, send, view } = one
    if (!isRecorded(result, one)) {
      cancelOtp(acceptor, view.id)
      const outcome = outcomes.get(send)
      if (outcome === undefined) toDecideAgain.push(send)
      else {
        // The request that holds the lock now has the same message id, so the same reservation.
        if (!result.lockLost.has(view.id)) unused.push(reservation)
        send.finish(outcome)
      }
    } else if (one.entry.fact.class === 'service') {
      outboxRecords.push(record)
      accepted.push(reservation)
      send.finish(Result.succeed({ view, duplicate: false }))
    } else {
      send.recorded()
      otpSends.push(one)
    }
  }
  for (const { decision, send } of batch.decided) {
    if (decision.type !== 'follow') continue
    const outcome = outcomes.get(send)
    const leader = batch.decided[decision.leader]!
    const code = otpSends.find((one) => one.send === leader.send)
    if (outcome !== undefined) send.finish(outcome)
    else if (code !== undefined) acceptor.otpInProgress.join(code.view.id, send, code.view)
    else toDecideAgain.push(send)
  }
  decideAgain(toDecideAgain)
  publisher.push({
    outboxRow: result.outboxRow,
    outboxRecords: [...outboxRecords, ...sealRecords],
    otpSends,
  })
  if (accepted.length > 0) yield* runInBackground(limits.confirm(accepted, batch.at))
  yield* releaseInBackground(acceptor, unused)
})
