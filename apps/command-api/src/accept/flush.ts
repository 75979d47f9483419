/**
 * The flush: how many sends become one transaction and one produce.
 *
 * A send is checked and rendered on its own before it comes here (`candidateOf`). Then it waits, for no timer, only until
 * a flush under way is recorded; whatever has come by then goes together. So a quiet hub answers at once
 * and a busy one shares the cost of a commit among all that wait.
 *
 * One flush:
 *   1. Look up. Used `client_ref`s, opt-outs, and PostgreSQL's clock, which stamps everything in the flush.
 *   2. Decide (`decideFlush`, pure): new, repeat, or refused. Repeats and refusals are answered here and spend nothing.
 *   3. Seal and encode what is new, one record a message.
 *   4. Record, in one transaction: the references, the acceptances, and an outbox row with the `service` records. `service` is
 *      answered: from here on it cannot be lost. A reference that another process took meanwhile makes its send
 *      wait for the next flush, where it is a repeat.
 *   5. Publish, while the next flush is already recorded: one append at a time, so that records stay in order. On success the
 *      outbox row is settled (deleted with a later flush) and each code is answered. On failure the row stays for the
 *      relay, and codes are answered `provider_unavailable`: their rows keep the id, unproven, and a repeat publishes the
 *      same id again. While the relay has rows to publish, new `service` records only join them, so that none overtakes.
 *
 * What may happen although it is reported as failed: a commit that timed out is found by the repeat's lookup (and its
 * outbox row by the relay); an append that timed out is published again under the same ids, which readers drop.
 *
 * A flush that PostgreSQL refuses for its data is cut in half until the send that is at fault stands alone.
 *
 * Everything is bounded: sends that wait, sends and bytes of a flush, and the time until a send is answered.
 */
import { type ApiError, apiError } from '@hub/contract'
import { accept, type Lifetimes, type MessageAccepted, republish } from '@hub/domain'
import { acceptedRecord, encodeRecords, EventLog, type OutgoingRecord, type TopicNames } from '@hub/kafka'
import { Sealing, type SealingKey, type StorageError } from '@hub/store'
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
import type { MakeId } from '../ids.ts'
import type { MessageView } from '../messages/message.ts'
import type { Candidate, Draft } from './candidate.ts'
import { type Decision, decideFlush, type Knowledge } from './decide.ts'
import { type Entry, type Found, Ledger, type Reference } from './ledger.ts'
import { OutboxGate } from './outbox-gate.ts'

/** Sends of one flush. A transaction of 2,000 rows takes some 30 ms: more would only make those behind it wait longer. */
const FLUSH_MESSAGES = 2000
/** Bytes of text in one flush, so that an outbox row and a produce stay small however long the texts are. */
const FLUSH_BYTES = 4 * 1024 * 1024
/**
 * Flushes under way at a time. With one, whoever comes first after an answer starts a flush of its own and all others wait for
 * it; a second one takes them meanwhile. What two have in common the unique references put in order.
 */
const FLUSHES = 2
/** Sends that wait for an answer in all. About a second of work at full speed: what comes on top would time out anyway. */
const MAX_WAITING = 20_000
/**
 * Recorded `service` messages that wait in memory for their turn at a slow bus. They are safe in the outbox: what comes on top
 * is left to the relay.
 */
const MAX_UNPUBLISHED = 10_000
/** The contract answers an unavailable hub within 3 s; the rest is for reading the request and writing the answer. */
const ANSWER_WITHIN_MS = 2500
/** How often it is looked whether a send has waited too long. */
const SWEEP = Duration.millis(100)
/** What an append may take. Architecture, Accepting, step 3. */
const APPEND_DEADLINE_MS = 1000
/** Codes remembered as acknowledged: those of the seconds until the projector has them, several times over. */
const REMEMBERED_CODES = 20_000
/** Seconds until a retry is worth while: the hub is looking for storage or bus again by then. */
const RETRY_AFTER = 2
/** Time for what is recorded and not yet published when the process ends: two appends and a deletion. */
const DRAIN_WITHIN = Duration.seconds(3)

/** What became of a send. */
export type Outcome = Result.Result<{ readonly view: MessageView; readonly duplicate: boolean }, ApiError>

/** A send and its place in the answer. */
interface Ticket {
  readonly candidate: Candidate
  readonly submission: Submission
  outcome: Outcome | null
}

/** What one request has put in: one send, or a batch. */
interface Submission {
  readonly tickets: Array<Ticket>
  readonly arrivedAt: number
  readonly done: Deferred.Deferred<void>
  unanswered: number
}

/** A code on its way to the bus. */
interface PublishedCode {
  readonly ticket: Ticket
  readonly view: MessageView
  readonly record: OutgoingRecord
}

/** What a recorded flush still has to publish. */
interface Publication {
  readonly outboxRow: number | null
  readonly service: ReadonlyArray<OutgoingRecord>
  readonly codes: ReadonlyArray<PublishedCode>
}

interface Decided {
  readonly ticket: Ticket
  readonly decision: Decision
}

/** A new or republished message of a flush. */
interface Draughted {
  readonly ticket: Ticket
  readonly entry: Entry
  readonly record: OutgoingRecord
  readonly view: MessageView
  readonly again: boolean
}

const flushSize = Metric.histogram('hub_accept_flush_messages', {
  description: 'Sends recorded together.',
  boundaries: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
})
const flushSeconds = Metric.histogram('hub_accept_flush_seconds', {
  description: 'From the lookup of a flush until it is recorded, in seconds.',
  boundaries: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2],
})
const waitingSends = Metric.gauge('hub_accept_waiting', { description: 'Sends that wait for their answer.' })

/** Made once: an error takes a picture of the stack, and when something is down there are thousands of them. */
const STORAGE_DOWN = apiError('internal_error', { retryAfter: RETRY_AFTER })
const OVERLOADED = apiError('internal_error', { retryAfter: 1 })
const NOT_QUEUED = apiError('provider_unavailable')

/** What a send costs a flush in bytes, roughly: its text twice (in the ledger and in the record) and its names. */
const weightOf = (candidate: Candidate): number =>
  Result.isSuccess(candidate.draft) ? 600 + 4 * candidate.draft.success.rendered.text.length : 100

const viewOf = (entry: Entry): MessageView => {
  const { fact } = entry
  return {
    id: fact.messageId,
    mode: fact.mode,
    class: fact.class,
    toMasked: entry.toMasked,
    status: 'accepted',
    reason: null,
    createdAt: fact.at,
    updatedAt: fact.at,
    clientRef: fact.clientRef,
    batch: fact.batch,
    template: fact.template,
    sender: fact.sender,
    attempts: 0,
    parts: fact.parts,
    price: fact.price,
    variables: fact.variables,
    history: [{ status: 'accepted', reason: null, at: fact.at }],
  }
}

/** The sealed payload. A code's variables would be its secret a second time; nothing ever shows them. */
const payloadOf = (draft: Draft): Buffer =>
  Buffer.from(
    JSON.stringify(
      draft.class === 'otp'
        ? { to: draft.to, text: draft.rendered.text }
        : { to: draft.to, text: draft.rendered.text, variables: draft.values },
    ),
  )

export interface FlusherOptions {
  readonly topics: TopicNames
  readonly lifetimes: Lifetimes
  readonly makeMessageId: MakeId
}

export class Flusher extends Context.Service<
  Flusher,
  {
    /**
     * Accepts the sends of one request; the outcomes are in its order. Never fails and answers within 2.5 s: what the hub
     * cannot do is an outcome too (`internal_error` or `provider_unavailable`, with `retry_after`).
     */
    readonly accept: (candidates: ReadonlyArray<Candidate>) => Effect.Effect<ReadonlyArray<Outcome>>
  }
>()('@hub/command-api/Flusher') {}

const make = Effect.fnUntraced(function* (options: FlusherOptions) {
  const ledger = yield* Ledger
  const log = yield* EventLog
  const sealing = yield* Sealing
  const gate = yield* OutboxGate

  const queue: Array<Ticket> = []
  const publications: Array<Publication> = []
  const open = new Set<Submission>()
  const settledRows: Array<number> = []
  /** Codes that are being recorded and published, and the repeats that wait with them. */
  const inFlight = new Map<string, Array<{ readonly ticket: Ticket; readonly view: MessageView }>>()
  const acknowledged = new Set<string>()
  let waiting = 0
  let unpublished = 0
  let flushing = 0
  let publishing = false
  const somethingQueued = yield* Latch.make(false)
  const somethingToPublish = yield* Latch.make(false)

  /** Told when the last send is answered and the last record published; for the end of the process. */
  let whenQuiet = (): void => {}
  const checkQuiet = (): void => {
    if (waiting === 0 && flushing === 0 && publications.length === 0 && !publishing) whenQuiet()
  }

  const settle = (ticket: Ticket, outcome: Outcome): void => {
    if (ticket.outcome !== null) return
    ticket.outcome = outcome
    waiting--
    const { submission } = ticket
    if (--submission.unanswered > 0) return
    open.delete(submission)
    checkQuiet()
    Deferred.doneUnsafe(submission.done, Effect.void)
  }
  const refuse = (ticket: Ticket, error: ApiError): void => settle(ticket, Result.fail(error))
  const answer = (ticket: Ticket, view: MessageView, duplicate: boolean): void =>
    settle(ticket, Result.succeed({ view, duplicate }))

  const remember = (messageId: string): void => {
    acknowledged.add(messageId)
    if (acknowledged.size <= REMEMBERED_CODES) return
    const oldest = acknowledged.values().next().value
    if (oldest !== undefined) acknowledged.delete(oldest)
  }

  // -------------------------------------------------------------------------------------------------------
  // Steps 1 to 4: recording
  // -------------------------------------------------------------------------------------------------------

  const take = (): ReadonlyArray<Ticket> => {
    let bytes = 0
    let count = 0
    for (const ticket of queue) {
      const weight = weightOf(ticket.candidate)
      if (count > 0 && (count >= FLUSH_MESSAGES || bytes + weight > FLUSH_BYTES)) break
      bytes += weight
      count++
    }
    // Nobody waits any more for what was answered meanwhile (too late): it must not be sent.
    return queue.splice(0, count).filter((ticket) => ticket.outcome === null)
  }

  /** A code is not being published after all: those that waited with it ask again. */
  const requeue = (messageId: string): void => {
    const joiners = inFlight.get(messageId)
    if (joiners === undefined) return
    inFlight.delete(messageId)
    queue.unshift(...joiners.map(({ ticket }) => ticket))
  }

  const lookup = (tickets: ReadonlyArray<Ticket>): Effect.Effect<Found, StorageError> => {
    const references = new Map<string, Reference>()
    const recipients = new Set<string>()
    for (const { candidate } of tickets) {
      const { clientRef, owner } = candidate
      if (clientRef !== null) {
        references.set(`${owner.accountUuid}:${owner.mode}:${clientRef}`, { owner, clientRef })
      }
      if (candidate.class === 'service' && owner.mode === 'live') recipients.add(candidate.recipient)
    }
    return ledger.lookup([...references.values()], [...recipients])
  }

  const keysFor = Effect.fnUntraced(function* (tickets: ReadonlyArray<Ticket>) {
    const keys = new Map<string, SealingKey>()
    for (const { candidate } of tickets) {
      if (!keys.has(candidate.class)) keys.set(candidate.class, yield* sealing.current(candidate.class))
    }
    return keys
  })

  /** In one step with the decision, as far as other flushes can see: from here on a code is in flight. */
  const seal = (
    at: number,
    keys: ReadonlyMap<string, SealingKey>,
    decided: ReadonlyArray<Decided>,
  ): ReadonlyArray<Draughted> => {
    const draughted: Array<Draughted> = []
    for (const { decision, ticket } of decided) {
      if (decision.type !== 'accept' && decision.type !== 'republish') continue
      const { draft } = decision
      const key = keys.get(draft.class)
      if (key === undefined) throw new Error('a class without its sealing key')
      const { candidate } = ticket
      const messageId = decision.type === 'accept' ? options.makeMessageId(at) : decision.messageId
      const accepted: MessageAccepted = accept({
        messageId,
        at,
        account: candidate.owner.account,
        mode: candidate.owner.mode,
        class: draft.class,
        recipient: draft.recipient,
        scenario: draft.scenario,
        template: draft.template,
        sender: draft.sender,
        clientRef: candidate.clientRef,
        batch: candidate.batch,
        rendered: draft.rendered,
        pricePerPart: draft.pricePerPart,
        lifetimes: options.lifetimes,
        sealingKey: key.id,
        sealed: key.seal(messageId, payloadOf(draft)),
      })
      const again = decision.type === 'republish'
      const fact = again ? republish(accepted) : accepted
      const entry: Entry = { owner: candidate.owner, fact, toMasked: draft.toMasked }
      if (fact.class === 'otp') inFlight.set(messageId, [])
      draughted.push({
        ticket,
        entry,
        record: acceptedRecord(options.topics, fact),
        view: viewOf(entry),
        again,
      })
    }
    return draughted
  }

  const record = Effect.fnUntraced(function* (draughted: ReadonlyArray<Draughted>) {
    if (draughted.length === 0) return
    const settled = settledRows.splice(0)
    const committed = yield* ledger
      .commit({
        accepted: draughted.filter(({ again }) => !again).map(({ entry }) => entry),
        republished: draughted.filter(({ again }) => again).map(({ entry }) => entry),
        outbox: (lost) => {
          const records = draughted
            .filter(({ entry }) => entry.fact.class === 'service' && !lost.has(entry.fact.messageId))
            .map((one) => one.record)
          return records.length === 0 ? null : encodeRecords(records)
        },
        settled,
      })
      .pipe(Effect.tapError(() => Effect.sync(() => settledRows.push(...settled))))

    const codes: Array<PublishedCode> = []
    const service: Array<OutgoingRecord> = []
    for (const { entry, record: written, ticket, view } of draughted) {
      if (committed.lost.has(view.id)) {
        requeue(view.id)
        queue.unshift(ticket)
        continue
      }
      if (entry.fact.class === 'service') {
        service.push(written)
        answer(ticket, view, false)
        continue
      }
      codes.push({ ticket, view, record: written })
    }
    const row = committed.outboxRow
    const leave = row !== null && (gate.isHolding() || unpublished + service.length > MAX_UNPUBLISHED)
    if (leave) gate.hold(row)
    if (codes.length === 0 && (leave || service.length === 0)) return
    publications.push(leave ? { outboxRow: null, service: [], codes } : { outboxRow: row, service, codes })
    if (!leave) unpublished += service.length
    somethingToPublish.openUnsafe()
  })

  const attempt = Effect.fnUntraced(function* (tickets: ReadonlyArray<Ticket>) {
    const keys = yield* keysFor(tickets)
    const { at, known, optedOut } = yield* lookup(tickets)
    const knowledge: Knowledge = {
      known,
      optedOut,
      acknowledged: (id) => acknowledged.has(id),
      inFlight: (id) => inFlight.has(id),
    }
    const decisions = decideFlush(
      tickets.map(({ candidate }) => candidate),
      knowledge,
    )
    const decided = tickets.map((ticket, i) => ({ ticket, decision: decisions[i]! }))
    const deferred: Array<Ticket> = []
    for (const { decision, ticket } of decided) {
      switch (decision.type) {
        case 'refuse':
          refuse(ticket, decision.error)
          break
        case 'duplicate':
          answer(ticket, decision.view, true)
          break
        case 'join':
          inFlight.get(decision.messageId)?.push({ ticket, view: decision.view })
          break
        case 'defer':
          deferred.push(ticket)
          break
        case 'accept':
        case 'republish':
          break
      }
    }
    const draughted = seal(at, keys, decided)
    yield* record(draughted).pipe(
      Effect.tapCause(() => Effect.sync(() => draughted.forEach(({ view }) => requeue(view.id)))),
    )
    queue.unshift(...deferred)
  })

  const isJoined = (ticket: Ticket): boolean => {
    for (const joiners of inFlight.values())
      if (joiners.some((joiner) => joiner.ticket === ticket)) return true
    return false
  }

  /** Never fails: every ticket is answered, queued again, or being published afterwards. */
  const flush = (tickets: ReadonlyArray<Ticket>): Effect.Effect<void> =>
    attempt(tickets).pipe(
      Effect.catch((error) => {
        const left = tickets.filter((ticket) => ticket.outcome === null && !isJoined(ticket))
        if (error._tag === 'StorageRejected' && left.length > 1) {
          const middle = Math.ceil(left.length / 2)
          return Effect.andThen(flush(left.slice(0, middle)), flush(left.slice(middle)))
        }
        const refused = error._tag === 'StorageRejected'
        const answer = refused ? apiError('invalid_parameter') : STORAGE_DOWN
        for (const ticket of left) refuse(ticket, answer)
        return Effect.logError(refused ? 'PostgreSQL refused a send' : 'sends could not be recorded').pipe(
          Effect.annotateLogs({ sends: left.length, error: error._tag, ...describe(error) }),
        )
      }),
    )

  const recordLoop = Effect.gen(function* () {
    yield* somethingQueued.await
    const tickets = take()
    if (queue.length === 0) somethingQueued.closeUnsafe()
    if (tickets.length === 0) return
    flushing++
    const from = yield* Clock.currentTimeMillis
    yield* flush(tickets).pipe(
      Effect.catchCause((cause) => {
        if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
        for (const ticket of tickets) refuse(ticket, apiError('internal_error'))
        return Effect.logError('a flush failed unexpectedly', cause)
      }),
    )
    flushing--
    checkQuiet()
    if (queue.length > 0) somethingQueued.openUnsafe()
    yield* Metric.update(flushSize, tickets.length)
    yield* Metric.update(flushSeconds, ((yield* Clock.currentTimeMillis) - from) / 1000)
    yield* Metric.update(waitingSends, waiting)
  })

  // -------------------------------------------------------------------------------------------------------
  // Step 5: publishing
  // -------------------------------------------------------------------------------------------------------

  const endCode = (code: PublishedCode, published: boolean): void => {
    const joiners = inFlight.get(code.view.id) ?? []
    inFlight.delete(code.view.id)
    if (published) {
      remember(code.view.id)
      answer(code.ticket, code.view, false)
      for (const { ticket, view } of joiners) answer(ticket, view, true)
    } else {
      refuse(code.ticket, NOT_QUEUED)
      for (const { ticket } of joiners) refuse(ticket, NOT_QUEUED)
    }
  }

  const publish = Effect.fnUntraced(function* (taken: ReadonlyArray<Publication>) {
    const records: Array<OutgoingRecord> = []
    const rows: Array<number> = []
    const codes: Array<PublishedCode> = []
    for (const publication of taken) {
      for (const code of publication.codes) {
        // Its client was told that it was not accepted, so it must not go out now. A repeat publishes it.
        if (code.ticket.outcome !== null) endCode(code, false)
        else {
          codes.push(code)
          records.push(code.record)
        }
      }
      if (publication.outboxRow === null) continue
      unpublished -= publication.service.length
      if (gate.isHolding()) gate.hold(publication.outboxRow)
      else {
        rows.push(publication.outboxRow)
        records.push(...publication.service)
      }
    }
    if (records.length === 0) return
    yield* log.append(records, { deadlineMs: APPEND_DEADLINE_MS }).pipe(
      Effect.matchEffect({
        onSuccess: () =>
          Effect.sync(() => {
            settledRows.push(...rows)
            for (const code of codes) endCode(code, true)
          }),
        onFailure: (error) => {
          for (const row of rows) gate.hold(row)
          for (const code of codes) endCode(code, false)
          return Effect.logWarning('the bus did not confirm').pipe(
            Effect.annotateLogs({ reason: error.reason, detail: error.detail, records: records.length }),
          )
        },
      }),
    )
  })

  const publishLoop = Effect.gen(function* () {
    yield* somethingToPublish.await
    let records = 0
    let count = 0
    for (const publication of publications) {
      records += publication.service.length + publication.codes.length
      if (count > 0 && records > FLUSH_MESSAGES) break
      count++
    }
    const taken = publications.splice(0, count)
    if (publications.length === 0) somethingToPublish.closeUnsafe()
    publishing = true
    yield* publish(taken).pipe(
      Effect.catchCause((cause) => {
        if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
        for (const { codes, outboxRow } of taken) {
          if (outboxRow !== null) gate.hold(outboxRow)
          for (const code of codes) endCode(code, false)
        }
        return Effect.logError('a publication failed unexpectedly', cause)
      }),
    )
    publishing = false
    checkQuiet()
  })

  // -------------------------------------------------------------------------------------------------------
  // Bounds
  // -------------------------------------------------------------------------------------------------------

  /** Answers what has waited too long. Submissions are in order of arrival. */
  const sweep = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    for (const submission of open) {
      if (now - submission.arrivedAt < ANSWER_WITHIN_MS) break
      for (const ticket of submission.tickets) {
        // A code that was not acknowledged is not accepted; anything else is a failure of storage.
        refuse(ticket, ticket.candidate.class === 'otp' ? NOT_QUEUED : STORAGE_DOWN)
      }
    }
  })

  /** Without a next flush to go with, acknowledged outbox rows go by themselves; else the relay would publish them again. */
  const tidy = Effect.suspend(() => {
    if (flushing > 0 || settledRows.length === 0) return Effect.void
    const rows = settledRows.splice(0)
    return ledger
      .settle(rows)
      .pipe(
        Effect.catch((error) =>
          Effect.logWarning('acknowledged outbox rows were not removed; they will be published again').pipe(
            Effect.annotateLogs({ rows: rows.length, error: error._tag }),
          ),
        ),
      )
  })

  for (let i = 0; i < FLUSHES; i++) yield* Effect.forkScoped(Effect.forever(recordLoop))
  yield* Effect.forkScoped(Effect.forever(publishLoop))
  yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(SWEEP)))
  yield* Effect.forkScoped(Effect.repeat(tidy, Schedule.spaced(SWEEP)))

  // Runs before the loops are interrupted. Nothing new comes: the listener is closed by then.
  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      whenQuiet = () => resume(Effect.void)
      checkQuiet()
    }).pipe(
      Effect.timeoutOrElse({
        duration: DRAIN_WITHIN,
        orElse: () => Effect.logWarning('sends were still under way at the end'),
      }),
      Effect.andThen(tidy),
    ),
  )

  return Flusher.of({
    accept: Effect.fnUntraced(function* (candidates) {
      if (waiting + candidates.length > MAX_WAITING) {
        return candidates.map(() => Result.fail(OVERLOADED))
      }
      const submission: Submission = {
        tickets: [],
        arrivedAt: yield* Clock.currentTimeMillis,
        done: Deferred.makeUnsafe<void>(),
        unanswered: candidates.length,
      }
      for (const candidate of candidates) submission.tickets.push({ candidate, submission, outcome: null })
      waiting += candidates.length
      open.add(submission)
      queue.push(...submission.tickets)
      somethingQueued.openUnsafe()
      yield* Deferred.await(submission.done)
      return submission.tickets.map(({ outcome }) => outcome ?? Result.fail(STORAGE_DOWN))
    }),
  })
})

const describe = (error: object): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const name of ['reason', 'detail', 'code', 'constraint', 'purpose']) {
    const value = (error as Record<string, unknown>)[name]
    if (typeof value === 'string') out[name] = value
  }
  return out
}

export const flusherLayer = (
  options: FlusherOptions,
): Layer.Layer<Flusher, never, Ledger | EventLog | Sealing | OutboxGate> =>
  Layer.effect(Flusher, make(options))
