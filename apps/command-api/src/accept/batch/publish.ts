/**
 * Step 5 of an acceptance batch: appends recorded messages to Kafka, one append at a time, in
 * order.
 *
 * After an acknowledgement the outbox rows are deleted with a later acceptance batch, and codes are
 * accepted. After a failure the relay appends the outbox rows. Codes that Kafka certainly does not
 * contain are rolled back: their charge is refunded and their reservation released. All others have
 * an unknown outcome (docs/decisions/repeats.md#unknown-outcomes).
 */
import { kafkaCrashPoint, type OutgoingRecord } from '@hub/kafka'
import { Outbox } from '@hub/outbox'
import { storageCrashPoint } from '@hub/store'
import { Cause, Effect, identity, Latch } from 'effect'
import type { Corrections } from '../recovery/corrections.ts'
import { APPEND_UNKNOWN, NOT_QUEUED } from '../errors.ts'
import { Ledger } from '../ledger/ledger.port.ts'
import { SendLimits } from './limits.ts'
import type { OtpInProgress } from './otp-in-progress.ts'
import type { PreparedSend } from './prepared-send.ts'
import type { Reservations } from './reservations.ts'
import { makeTracedAppend } from './traced-append.ts'
import { UnprovenCodes } from '../recovery/unproven-codes.ts'

/** Records of one append: as many as one acceptance batch can produce. */
const APPEND_RECORDS = 2000
/** Recorded `service` messages that wait in memory for Kafka. The relay appends further ones. */
const MAX_UNPUBLISHED = 10_000
/**
 * Deadline of an append. A code may also wait for the append before it, and has its answer within 2.4 s
 * in any case. Source: docs/architecture.md, Accepting.
 */
const APPEND_DEADLINE_MS = 1500

const atAppended = kafkaCrashPoint('command-api.appended')
const atAppendedAgain = kafkaCrashPoint('command-api.code-appended-again')
const atRefunded = storageCrashPoint('command-api.codes-refunded')

/** What a recorded acceptance batch still has to publish. */
export interface Publication {
  /** Id of its outbox row; `null`: it has none. */
  readonly outboxRow: number | null
  /** The records of the outbox row: `service` messages and `BatchSealed`. */
  readonly outboxRecords: ReadonlyArray<OutgoingRecord>
  readonly otpSends: ReadonlyArray<PreparedSend>
}

export interface PublisherOptions {
  readonly otpInProgress: OtpInProgress
  readonly corrections: Corrections
  readonly reservations: Reservations
  /** Called when a publication or a rollback has ended. */
  readonly onPublished: () => void
}

export const makePublisher = Effect.fnUntraced(function* (options: PublisherOptions) {
  const { corrections, onPublished, otpInProgress, reservations } = options
  const ledger = yield* Ledger
  const append = yield* makeTracedAppend
  const limits = yield* SendLimits
  const outbox = yield* Outbox
  const unprovenCodes = yield* UnprovenCodes

  const publications: Array<Publication> = []
  let unpublished = 0
  let publishing = false
  const somethingToPublish = yield* Latch.make(false)
  /** Codes that are not published because their clients have an answer already. */
  let expired: Array<PreparedSend> = []
  let rollingBack = false
  const somethingExpired = yield* Latch.make(false)

  const confirm = (otpSends: ReadonlyArray<PreparedSend>): void => {
    for (const { duplicate, send, view } of otpSends) otpInProgress.confirm(send, view, duplicate)
    // The codes of an append come from acceptance batches that ended at nearly the same time.
    const at = otpSends[0]?.view.createdAt
    if (at !== undefined) {
      reservations.confirm(
        otpSends.map(({ reservation }) => reservation),
        at,
      )
    }
  }

  /**
   * Refunds and releases before the clients are answered, so that a repeat is not refused because
   * of its own first send. If this fails, reservations expire and the reconciler refunds.
   */
  const rollBackUnpublished = Effect.fnUntraced(function* (otpSends: ReadonlyArray<PreparedSend>) {
    if (otpSends.length === 0) return
    const codes = otpSends.map(({ view }) => ({ messageId: view.id, at: view.createdAt }))
    yield* Effect.all(
      [
        limits.release(otpSends.map(({ reservation }) => reservation)),
        ledger.refund(codes).pipe(
          atRefunded,
          Effect.catchCause((cause) => {
            // A sealed batch proves its codes, so this batch must stay open until the refund.
            for (const { send } of otpSends) send.request.doubt()
            return Effect.andThen(
              Effect.sync(() => corrections.refund(codes)),
              Effect.annotateLogs(
                Effect.logWarning('acceptor: unpublished codes were not refunded; trying again', cause),
                { codes: codes.length },
              ),
            )
          }),
        ),
      ],
      { concurrency: 'unbounded', discard: true },
    )
    for (const { send, view } of otpSends) otpInProgress.fail(send, view.id, NOT_QUEUED)
  })

  /**
   * Kafka may contain the codes, so they stay charged, and keep their reservations, until the
   * reconciler knows.
   */
  const leaveUnproven = (otpSends: ReadonlyArray<PreparedSend>): void => {
    unprovenCodes.add(
      otpSends.map(({ entry, view }) => ({ messageId: view.id, recipient: entry.fact.recipient })),
    )
    for (const { send, view } of otpSends) otpInProgress.fail(send, view.id, APPEND_UNKNOWN)
  }

  /** After a defect, leaves rows to the relay, and the codes unproven that are not confirmed and not refused. */
  const catchDefect = (taken: ReadonlyArray<Pick<Publication, 'outboxRow' | 'otpSends'>>, message: string) =>
    Effect.catchCause((cause: Cause.Cause<never>) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      for (const { outboxRow, otpSends } of taken) {
        if (outboxRow !== null) outbox.leave(outboxRow)
        leaveUnproven(otpSends.filter(({ view }) => otpInProgress.isInProgress(view.id)))
      }
      return Effect.logError(message, cause)
    })

  const publish = Effect.fnUntraced(function* (taken: ReadonlyArray<Publication>) {
    const records: Array<OutgoingRecord> = []
    const rows: Array<number> = []
    const otpSends: Array<PreparedSend> = []
    for (const publication of taken) {
      for (const code of publication.otpSends) {
        // Its client has the answer that it is not accepted, so only a repeat may publish it.
        if (code.send.outcome !== null) expired.push(code)
        else {
          code.send.append()
          otpSends.push(code)
          records.push(code.record)
        }
      }
      if (publication.outboxRow === null) continue
      unpublished -= publication.outboxRecords.length
      if (outbox.isRelaying()) outbox.leave(publication.outboxRow)
      else {
        rows.push(publication.outboxRow)
        records.push(...publication.outboxRecords)
      }
    }
    if (expired.length > 0) somethingExpired.openUnsafe()
    if (records.length === 0) return
    const appending = append(records, { deadlineMs: APPEND_DEADLINE_MS }).pipe(
      atAppended,
      otpSends.some(({ republished }) => republished) ? atAppendedAgain : identity,
    )
    yield* outbox.appending(rows, appending).pipe(
      Effect.matchEffect({
        onSuccess: () => Effect.sync(() => confirm(otpSends)),
        onFailure: (error) =>
          Effect.andThen(
            error.notAppended === true
              ? rollBackUnpublished(otpSends)
              : Effect.sync(() => leaveUnproven(otpSends)),
            Effect.logWarning(
              'acceptor: Kafka did not confirm an append; the relay appends its outbox rows, codes are refused',
            ).pipe(
              Effect.annotateLogs({
                reason: error.reason,
                detail: error.detail,
                outcome: error.notAppended === true ? 'not appended' : 'unknown',
                records: records.length,
                outbox_rows: rows.length,
                codes: otpSends.length,
              }),
            ),
          ),
      }),
    )
  })

  /** Takes the publications of one append. */
  const take = (): ReadonlyArray<Publication> => {
    let records = 0
    let count = 0
    for (const publication of publications) {
      records += publication.outboxRecords.length + publication.otpSends.length
      if (count > 0 && records > APPEND_RECORDS) break
      count++
    }
    const taken = publications.splice(0, count)
    if (publications.length === 0) somethingToPublish.closeUnsafe()
    return taken
  }

  const loop = Effect.gen(function* () {
    yield* somethingToPublish.await
    const taken = take()
    publishing = true
    yield* publish(taken).pipe(
      catchDefect(taken, 'acceptor: a publication failed unexpectedly; the relay appends its rows'),
    )
    publishing = false
    onPublished()
  })

  /** The next append does not wait for this: while PostgreSQL is slow, more codes would expire. */
  const rollBackLoop = Effect.gen(function* () {
    yield* somethingExpired.await
    somethingExpired.closeUnsafe()
    const taken = expired
    expired = []
    rollingBack = true
    yield* rollBackUnpublished(taken).pipe(
      catchDefect(
        [{ outboxRow: null, otpSends: taken }],
        'acceptor: a rollback failed unexpectedly; the reconciler refunds its codes',
      ),
    )
    rollingBack = false
    onPublished()
  })

  return {
    loops: [loop, rollBackLoop],
    isIdle: () => publications.length === 0 && !publishing && expired.length === 0 && !rollingBack,
    /** Queues what was recorded. Rows that cannot be appended in order are left to the relay. */
    push: ({ otpSends, outboxRecords, outboxRow }: Publication): void => {
      const isRelayed =
        outboxRow !== null && (outbox.isRelaying() || unpublished + outboxRecords.length > MAX_UNPUBLISHED)
      if (isRelayed) outbox.leave(outboxRow)
      if (otpSends.length === 0 && (isRelayed || outboxRow === null)) return
      publications.push(
        isRelayed ? { outboxRow: null, outboxRecords: [], otpSends } : { outboxRow, outboxRecords, otpSends },
      )
      if (!isRelayed) unpublished += outboxRecords.length
      somethingToPublish.openUnsafe()
    },
  }
})
export type Publisher = Effect.Success<ReturnType<typeof makePublisher>>
