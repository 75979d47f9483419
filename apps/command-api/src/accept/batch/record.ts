/**
 * Step 4 of an acceptance batch: records the prepared sends in one transaction of the ledger.
 *
 * The transaction also writes the outcome of a batch and the response under an idempotency key, if
 * it makes their last outcome known. A recorded `service` message is accepted. A recorded code is
 * accepted only when Kafka acknowledges it.
 */
import { apiError } from '@hub/contract'
import { encodeOutboxRow, type OutgoingRecord, type TopicNames } from '@hub/kafka'
import type { Outbox } from '@hub/outbox'
import { storageCrashPoint, type StorageError, type StorageUnavailable } from '@hub/store'
import type { TracingShape } from '@hub/telemetry'
import { Effect, Result } from 'effect'
import type { DecidedSend } from './decide-and-limit.ts'
import type { BatchRow, CommitResult, ExtraWrites, Ledger, Unrecorded } from '../ledger/ledger.port.ts'
import type { SendReservation } from './limits.ts'
import type { OtpInProgress } from './otp-in-progress.ts'
import type { PreparedSend } from './prepared-send.ts'
import type { Publication } from './publish.ts'
import type { PendingRequest, PendingSend } from '../request.ts'
import type { SendOutcome } from '../send.ts'
import type { UnresolvedCommit } from '../recovery/unresolved-commits.ts'
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

interface RecordServices {
  readonly ledger: Pick<Ledger['Service'], 'commit'>
  readonly topics: TopicNames
  readonly tracing: TracingShape
  readonly outbox: Pick<Outbox['Service'], 'addAppended' | 'takeAppended'>
}

/** The result of a commit, with the records `BatchSealed` that it wrote. */
interface Recorded extends CommitResult {
  readonly sealRecords: ReadonlyArray<OutgoingRecord>
}

/**
 * Records the acceptance batch. Afterwards its requests know what the ledger contains of them. `null`: the
 * result of the commit is unknown. `id`: UUID of the commit.
 */
export const recordAcceptanceBatch = Effect.fnUntraced(function* (
  { ledger, outbox, topics, tracing }: RecordServices,
  id: string,
  batch: PreparedAcceptanceBatch,
) {
  const { prepared } = batch
  const rows = outbox.takeAppended()
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
      appendedRows: rows,
    })
    .pipe(
      atRecorded,
      Effect.onError(() => Effect.sync(() => outbox.addAppended(rows))),
      Effect.catchIf(isUnknown, ({ detail, reason }) =>
        Effect.as(
          Effect.logWarning('acceptor: the result of a commit is unknown; the hub finds it out').pipe(
            Effect.annotateLogs({ commit: id, sends: prepared.length, reason, detail }),
          ),
          null,
        ),
      ),
    )
  if (result === null) return null
  // Before any send gets its outcome: a request reads these as soon as it is done.
  const { results, sealRecords } = result.extraWrites
  for (const request of results.recorded) request.record()
  for (const request of results.sealed) request.seal()
  for (const request of results.responseStored) request.storeResponse()
  if (tracing.isOn) traceRecorded(tracing, results.recorded)
  return { ...result, sealRecords } satisfies Recorded
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

/** The result of the commit is unknown: its sends are `Uncertain`, and its codes are not published. */
export const leaveUnresolved = (
  otpInProgress: OtpInProgress,
  id: string,
  { decided, prepared }: PreparedAcceptanceBatch,
): { readonly unresolved: UnresolvedCommit; readonly again: ReadonlyArray<PendingSend> } => {
  for (const { send, view } of prepared) send.lose({ messageId: view.id, at: view.createdAt })
  return {
    unresolved: {
      id,
      prepared,
      followers: decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send),
    },
    again: prepared.flatMap(({ view }) => otpInProgress.cancel(view.id)),
  }
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

/** What is left to do after a commit. */
interface AfterCommit {
  /** To be decided again. */
  readonly again: ReadonlyArray<PendingSend>
  readonly publication: Publication
  /** Reservations of accepted sends, and those that nobody uses. */
  readonly accepted: ReadonlyArray<SendReservation>
  readonly unused: ReadonlyArray<SendReservation>
}

/** Completes the sends whose outcome the commit makes known. */
export const completeRecorded = (
  otpInProgress: OtpInProgress,
  batch: PreparedAcceptanceBatch,
  result: Recorded,
): AfterCommit => {
  const outcomes = outcomesOf(result, batch)
  const otpSends: Array<PreparedSend> = []
  const outboxRecords: Array<OutgoingRecord> = []
  const accepted: Array<SendReservation> = []
  const unused: Array<SendReservation> = []
  const again: Array<PendingSend> = []
  for (const one of batch.prepared) {
    const { record, reservation, send, view } = one
    if (!isRecorded(result, one)) {
      again.push(...otpInProgress.cancel(view.id))
      const outcome = outcomes.get(send)
      if (outcome === undefined) again.push(send)
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
    else if (code !== undefined) otpInProgress.join(code.view.id, send, code.view)
    else again.push(send)
  }
  return {
    again,
    publication: {
      outboxRow: result.outboxRow,
      outboxRecords: [...outboxRecords, ...result.sealRecords],
      otpSends,
    },
    accepted,
    unused,
  }
}
