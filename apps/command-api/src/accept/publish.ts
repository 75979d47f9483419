/**
 * Step 5 of a flush: publishing what is recorded, one append at a time, so that records stay in order. (The whole story is told in
 * `flush.ts`.)
 */
import type { OutgoingRecord } from '@hub/kafka'
import { Cause, Effect, Latch } from 'effect'
import type { MessageView } from '../messages/message.ts'
import { Ledger } from './ledger.ts'
import { type SendReservation, Limits } from './limits.ts'
import { OutboxMode } from './outbox-mode.ts'
import { makeTracedAppend } from './traced-append.ts'
import { NOT_QUEUED, type PendingSend, type Waiting } from './pending-send.ts'

/** Records of one append. */
const APPEND_RECORDS = 2000
/**
 * Recorded `service` messages that wait in memory for their turn at a slow bus. They are safe in the outbox: what comes on top
 * is left to the relay.
 */
const MAX_UNPUBLISHED = 10_000
/** What an append may take. Architecture, Accepting, step 3. */
const APPEND_DEADLINE_MS = 1000
/** Codes remembered as acknowledged: those of the seconds until the projector has them, several times over. */
const REMEMBERED_CODES = 20_000

/** A code on its way to Kafka. */
export interface PublishedCode {
  readonly send: PendingSend
  readonly reservation: SendReservation
  readonly view: MessageView
  readonly record: OutgoingRecord
}

/** What a recorded flush still has to publish. */
export interface Publication {
  /** Its row in the outbox; `null` where it has none. */
  readonly outboxRow: number | null
  /** What is in the outbox row: `service` messages and seals of batches. */
  readonly safe: ReadonlyArray<OutgoingRecord>
  readonly codes: ReadonlyArray<PublishedCode>
}

/** A repeat of a code that is being published: its answer is that publication's. */
interface Joiner {
  readonly send: PendingSend
  readonly view: MessageView
}

export const makePublisher = Effect.fnUntraced(function* (
  waiting: Waiting,
  hooks: {
    /** Starts what need not be waited for. */
    readonly runInBackground: (work: Effect.Effect<void>) => Effect.Effect<void>
    readonly onQuiet: () => void
  },
) {
  const ledger = yield* Ledger
  const append = yield* makeTracedAppend
  const limits = yield* Limits
  const outboxMode = yield* OutboxMode

  const publications: Array<Publication> = []
  /** Codes that are being recorded and published, and the repeats that wait with them. */
  const inFlight = new Map<string, Array<Joiner>>()
  const acknowledged = new Set<string>()
  /** Outbox rows that Kafka has acknowledged; deleted with a later flush. */
  const settledRows: Array<number> = []
  let unpublished = 0
  let publishing = false
  const somethingToPublish = yield* Latch.make(false)

  const remember = (messageId: string): void => {
    acknowledged.add(messageId)
    if (acknowledged.size <= REMEMBERED_CODES) return
    const oldest = acknowledged.values().next().value
    if (oldest !== undefined) acknowledged.delete(oldest)
  }

  const confirm = (codes: ReadonlyArray<PublishedCode>): Effect.Effect<void> => {
    for (const { send, view } of codes) {
      const joiners = inFlight.get(view.id) ?? []
      inFlight.delete(view.id)
      remember(view.id)
      send.reserved = false
      waiting.answer(send, view, false)
      for (const joiner of joiners) waiting.answer(joiner.send, joiner.view, true)
    }
    // All codes of an append are of one or two flushes: milliseconds apart.
    const at = codes[0]?.view.createdAt
    const reservations = codes.map(({ reservation }) => reservation)
    return at === undefined ? Effect.void : hooks.runInBackground(limits.accepted(reservations, at))
  }

  /**
   * They are not accepted: money and windows are given back before their clients are told, so that a repeat does not
   * meet what its first spent. What cannot be given back now lapses (windows) or is found by the reconciler (money).
   */
  const rollBackUnpublished = Effect.fnUntraced(function* (codes: ReadonlyArray<PublishedCode>) {
    if (codes.length === 0) return
    yield* Effect.all(
      [
        limits.giveBack(codes.map(({ reservation }) => reservation)),
        ledger.giveBack(codes.map(({ view }) => ({ messageId: view.id, at: view.createdAt }))).pipe(
          Effect.catchCause((cause) => {
            // Sealed batches prove their codes, and these are none of it: the sweeper seals theirs, when it is known what became of them.
            for (const { send } of codes) send.request.doubtful = true
            return Effect.logWarning('codes that were not published are still charged', cause).pipe(
              Effect.annotateLogs({ codes: codes.length }),
            )
          }),
        ),
      ],
      { concurrency: 'unbounded', discard: true },
    )
    for (const { send, view } of codes) {
      const joiners = inFlight.get(view.id) ?? []
      inFlight.delete(view.id)
      send.reserved = false
      waiting.refuse(send, NOT_QUEUED)
      for (const joiner of joiners) waiting.refuse(joiner.send, NOT_QUEUED)
    }
  })

  const publish = Effect.fnUntraced(function* (taken: ReadonlyArray<Publication>) {
    const records: Array<OutgoingRecord> = []
    const rows: Array<number> = []
    const codes: Array<PublishedCode> = []
    const late: Array<PublishedCode> = []
    for (const publication of taken) {
      for (const code of publication.codes) {
        // Its client was told that it was not accepted, so it must not go out now. A repeat publishes it.
        if (code.send.outcome !== null) late.push(code)
        else {
          codes.push(code)
          records.push(code.record)
        }
      }
      if (publication.outboxRow === null) continue
      unpublished -= publication.safe.length
      if (outboxMode.isRelaying()) outboxMode.leaveToRelay(publication.outboxRow)
      else {
        rows.push(publication.outboxRow)
        records.push(...publication.safe)
      }
    }
    yield* rollBackUnpublished(late)
    if (records.length === 0) return
    yield* append(records, { deadlineMs: APPEND_DEADLINE_MS }).pipe(
      Effect.matchEffect({
        onSuccess: () =>
          Effect.suspend(() => {
            settledRows.push(...rows)
            return confirm(codes)
          }),
        onFailure: (error) => {
          for (const row of rows) outboxMode.leaveToRelay(row)
          return Effect.andThen(
            rollBackUnpublished(codes),
            Effect.logWarning('Kafka did not confirm').pipe(
              Effect.annotateLogs({ reason: error.reason, detail: error.detail, records: records.length }),
            ),
          )
        },
      }),
    )
  })

  const loop = Effect.gen(function* () {
    yield* somethingToPublish.await
    let records = 0
    let count = 0
    for (const publication of publications) {
      records += publication.safe.length + publication.codes.length
      if (count > 0 && records > APPEND_RECORDS) break
      count++
    }
    const taken = publications.splice(0, count)
    if (publications.length === 0) somethingToPublish.closeUnsafe()
    publishing = true
    yield* publish(taken).pipe(
      Effect.catchCause((cause) => {
        if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
        for (const { outboxRow } of taken) if (outboxRow !== null) outboxMode.leaveToRelay(outboxRow)
        return Effect.andThen(
          rollBackUnpublished(
            taken.flatMap(({ codes }) => codes).filter(({ view }) => inFlight.has(view.id)),
          ),
          Effect.logError('a publication failed unexpectedly', cause),
        )
      }),
    )
    publishing = false
    hooks.onQuiet()
  })

  return {
    loop,
    settledRows,
    isQuiet: () => publications.length === 0 && !publishing,
    /** Takes what was just recorded. What cannot be published in order is left to the relay. */
    push: ({ codes, outboxRow, safe }: Publication): void => {
      const leave =
        outboxRow !== null && (outboxMode.isRelaying() || unpublished + safe.length > MAX_UNPUBLISHED)
      if (leave) outboxMode.leaveToRelay(outboxRow)
      if (codes.length === 0 && (leave || outboxRow === null)) return
      publications.push(leave ? { outboxRow: null, safe: [], codes } : { outboxRow, safe, codes })
      if (!leave) unpublished += safe.length
      somethingToPublish.openUnsafe()
    },
    isAcknowledged: (messageId: string): boolean => acknowledged.has(messageId),
    isInFlight: (messageId: string): boolean => inFlight.has(messageId),
    /** From here on a code is being published: repeats wait with it. */
    begin: (messageId: string): void => void inFlight.set(messageId, []),
    join: (messageId: string, joiner: Joiner): void => void inFlight.get(messageId)?.push(joiner),
    /** It is not being published after all. Answers those that waited with it. */
    end: (messageId: string): ReadonlyArray<PendingSend> => {
      const joiners = inFlight.get(messageId) ?? []
      inFlight.delete(messageId)
      return joiners.map(({ send }) => send)
    },
    hasJoined: (send: PendingSend): boolean => {
      for (const joiners of inFlight.values()) if (joiners.some((joiner) => joiner.send === send)) return true
      return false
    },
  }
})
export type Publisher = Effect.Success<ReturnType<typeof makePublisher>>
