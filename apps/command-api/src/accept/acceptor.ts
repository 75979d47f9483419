/**
 * The flush: how many sends become one transaction and one produce.
 *
 * A send is checked and rendered on its own before it comes here (`checkSend`). Then it waits, for no timer, only until
 * a flush under way is recorded; whatever has come by then goes together. So a quiet hub answers at once
 * and a busy one shares the cost of a commit among all that wait.
 *
 * One flush:
 *   1. Look up. Used `client_ref`s, ids that idempotency keys remember, opt-outs, and PostgreSQL's clock, which stamps everything
 *      in the flush.
 *   2. Decide (`decideSends`, pure): new, repeat, or refused. Repeats and refusals are answered here and spend nothing.
 *      What is new asks the limits (`limits.ts`): the hub's day, once for a whole request, then the flood windows, where
 *      it takes a place that is given back if it is not accepted in the end.
 *   3. Seal and encode what is new, one record a message.
 *   4. Record, in one transaction (`ledger.ts`): the references, the acceptances, the money, and an outbox row with the `service`
 *      records; the outcome of a batch and the answer under an idempotency key, where this flush makes them known.
 *      `service` is answered: from here on it cannot be lost. A reference that another process took meanwhile makes its
 *      send wait for the next flush, where it is a repeat.
 *   5. Publish (`publisher.ts`), while the next flush is already recorded: one append at a time, so that records stay in
 *      order. On success the outbox row is settled (deleted with a later flush) and each code is answered. On failure the
 *      row stays for the relay, and codes are answered `provider_unavailable`, their money and windows given back: their
 *      rows keep the id, unproven, and a repeat publishes the same id again. While the relay has rows to publish, new
 *      `service` records only join them, so that none overtakes.
 *   6. A batch whose outcome came to light elsewhere (codes, several flushes, nothing to record) is sealed at last; what even that
 *      does not reach is the sweeper's. Sealed, it proves its codes to every process (docs/decisions/0028).
 *
 * What may happen although it is reported as failed: a commit that timed out is found by the repeat's lookup (and its
 * outbox row by the relay); an append that timed out is published again under the same ids, which readers drop; a place in the
 * windows is taken once under one key, and lapses if nobody makes it final.
 *
 * A flush that PostgreSQL refuses for its data is cut in half until the send that is at fault stands alone.
 *
 * Everything is bounded: sends that wait, sends and bytes of a flush, and the time until a send is answered.
 */
import { type ApiError, apiError } from '@hub/contract'
import { accept, type Lifetimes, type MessageAccepted, republish } from '@hub/domain'
import {
  acceptedRecord,
  type BatchSealed,
  batchSealedRecord,
  encodeOutboxRow,
  EventLog,
  type OutgoingRecord,
  type TopicNames,
} from '@hub/kafka'
import { PayloadEncryption, type PayloadKey, type StorageError } from '@hub/store'
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
import type { MakeId } from '../ids.ts'
import { acceptedView, type MessageView } from '../messages/message.ts'
import { type BatchOutcome, batchOutcome } from './seal-batch.ts'
import type { CheckedSend, MessageDraft } from './checked-send.ts'
import { type Decision, decideSends, type Knowledge } from './decide.ts'
import {
  type BatchRow,
  type CommitResult,
  type LedgerEntry,
  type LedgerSnapshot,
  Ledger,
  type Reference,
  type ExtraWrites,
  type Unrecorded,
} from './ledger.ts'
import { type SendReservation, Limits } from './limits.ts'
import type { OutboxMode } from './outbox-mode.ts'
import { makePublisher, type PublishedCode } from './publish.ts'
import {
  makeWaiting,
  NOT_QUEUED,
  type SendOutcome,
  OVERLOADED,
  STORAGE_DOWN,
  type PendingRequest,
  type PendingSend,
  type RequestContext,
} from './pending-send.ts'

/** Sends of one flush. A transaction of 2,000 rows takes some 30 ms: more would only make those behind it wait longer. */
const FLUSH_MESSAGES = 2000
/** Bytes of text in one flush, so that an outbox row and a produce stay small however long the texts are. */
const FLUSH_BYTES = 4 * 1024 * 1024
/**
 * Flushes under way at a time. With one, whoever comes first after an answer starts a flush of its own and all others wait for
 * it; a second one takes them meanwhile. What two have in common the unique references put in order.
 */
const FLUSHES = 2
/** How often it is looked whether a send has waited too long. */
const SWEEP = Duration.millis(100)
/** Time for what is recorded and not yet published when the process ends: two appends and a deletion. */
const DRAIN_WITHIN = Duration.seconds(3)

/** What became of the sends of a request. */
export interface Accepted {
  /** In the order of the sends. */
  readonly outcomes: ReadonlyArray<SendOutcome>
  /** When its batch was created, milliseconds since the epoch; `null` where none was. */
  readonly batchCreatedAt: number | null
  /** Its answer is stored under its idempotency key. */
  readonly stored: boolean
}

interface Decided {
  readonly send: PendingSend
  decision: Decision
}

/** A new or republished message of a flush. */
interface PreparedSend {
  readonly send: PendingSend
  readonly reservation: SendReservation
  readonly entry: LedgerEntry
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
const waitingSends = Metric.gauge('hub_accept_waiting_sends', {
  description: 'Sends that wait for their answer.',
})

const OVER_LIMIT = apiError('spend_limit_reached')
const ABANDONED = apiError('idempotency_conflict')

/** What a send costs a flush in bytes, roughly: its text twice (in the ledger and in the record) and its names. */
const weightOf = (checked: CheckedSend): number =>
  Result.isSuccess(checked.draft) ? 600 + 4 * checked.draft.success.rendered.text.length : 100

/** The sealed payload. A code's variables would be its secret a second time; nothing ever shows them. */
const payloadOf = (draft: MessageDraft): Buffer =>
  Buffer.from(
    JSON.stringify(
      draft.class === 'otp'
        ? { to: draft.to, text: draft.rendered.text }
        : { to: draft.to, text: draft.rendered.text, variables: draft.values },
    ),
  )

/** What follows from a send belongs to the trace of its request. */
const traced = ({ request }: PendingSend): { readonly traceparent?: string } => {
  const trace = request.context.trace ?? null
  return trace === null ? {} : { traceparent: trace.traceparent }
}

const isNew = (decision: Decision): decision is Extract<Decision, { readonly draft: MessageDraft }> =>
  decision.type === 'accept' || decision.type === 'republish'

export interface AcceptorOptions {
  readonly topics: TopicNames
  readonly lifetimes: Lifetimes
  readonly makeMessageId: MakeId
}

export class BatchingAcceptor extends Context.Service<
  BatchingAcceptor,
  {
    /**
     * Accepts the sends of one request; the outcomes are in its order. Never fails and answers within 3 s: what the hub
     * cannot do is an outcome too (`internal_error` or `provider_unavailable`, with `retry_after`).
     */
    readonly accept: (
      checkedSends: ReadonlyArray<CheckedSend>,
      context?: RequestContext,
    ) => Effect.Effect<Accepted>
  }
>()('@hub/command-api/BatchingAcceptor') {}

const make = Effect.fnUntraced(function* (options: AcceptorOptions) {
  const ledger = yield* Ledger
  const payloadEncryption = yield* PayloadEncryption
  const limits = yield* Limits
  const tracing = yield* Tracing
  const scope = yield* Effect.scope

  const queue: Array<PendingSend> = []
  let flushing = 0
  /** Sends of the flushes under way. */
  let underWay = 0
  const somethingQueued = yield* Latch.make(false)
  /**
   * A flush costs the same for one send as for fifty: beside another one it begins only when it is worth it. Whoever waits goes when that
   * one ends, at the latest.
   */
  const isWorthIt = () => queue.length > 0 && (flushing === 0 || 2 * queue.length >= underWay)
  const wake = (): void => {
    if (isWorthIt()) somethingQueued.openUnsafe()
    else somethingQueued.closeUnsafe()
  }

  /** Told when the last send is answered and the last record published; for the end of the process. */
  let whenQuiet = (): void => {}
  const runInBackground = (work: Effect.Effect<void>) => Effect.asVoid(Effect.forkIn(work, scope))
  const waiting = makeWaiting(() => checkQuiet())
  const publisher = yield* makePublisher(waiting, { runInBackground, onQuiet: () => checkQuiet() })
  const checkQuiet = (): void => {
    if (waiting.count() === 0 && flushing === 0 && publisher.isQuiet()) whenQuiet()
  }
  const { settledRows } = publisher

  // -------------------------------------------------------------------------------------------------------
  // Step 1: what is known
  // -------------------------------------------------------------------------------------------------------

  const take = (): ReadonlyArray<PendingSend> => {
    let bytes = 0
    let count = 0
    for (const send of queue) {
      const weight = weightOf(send.checked)
      if (count > 0 && (count >= FLUSH_MESSAGES || bytes + weight > FLUSH_BYTES)) break
      bytes += weight
      count++
    }
    // Nobody waits any more for what was answered meanwhile (too late): it must not be sent.
    return queue.splice(0, count).filter((send) => send.outcome === null)
  }

  /** A code is not being published after all: those that waited with it ask again. */
  const requeue = (messageId: string): void => void queue.unshift(...publisher.end(messageId))

  const lookup = (sends: ReadonlyArray<PendingSend>): Effect.Effect<LedgerSnapshot, StorageError> => {
    const references = new Map<string, Reference>()
    const recipients = new Set<string>()
    const remembered = new Set<string>()
    for (const { checked } of sends) {
      const { clientRef, messageId, owner } = checked
      if (clientRef !== null) {
        references.set(`${owner.accountUuid}:${owner.mode}:${clientRef}`, { owner, clientRef })
      }
      if (messageId !== null) remembered.add(messageId)
      if (checked.class === 'service' && owner.mode === 'live') recipients.add(checked.recipient)
    }
    return ledger.lookup({
      references: [...references.values()],
      recipients: [...recipients],
      remembered: [...remembered],
    })
  }

  const keysFor = Effect.fnUntraced(function* (sends: ReadonlyArray<PendingSend>) {
    const keys = new Map<string, PayloadKey>()
    for (const { checked } of sends) {
      if (!keys.has(checked.class))
        keys.set(checked.class, yield* payloadEncryption.currentKey(checked.class))
    }
    return keys
  })

  // -------------------------------------------------------------------------------------------------------
  // Step 2: decisions, and the limits
  // -------------------------------------------------------------------------------------------------------

  /**
   * Decides, and in the same turn, as far as other flushes can see, says which codes are being published from here on and
   * which repeats wait with them. Ids rise in the order of the sends, so that a batch lists in that order.
   */
  const decide = (sends: ReadonlyArray<PendingSend>, found: LedgerSnapshot): ReadonlyArray<Decided> => {
    const knowledge: Knowledge = {
      known: found.known,
      recorded: found.recorded,
      optedOut: found.optedOut,
      acknowledged: publisher.isAcknowledged,
      inFlight: publisher.isInFlight,
    }
    const decisions = decideSends(
      sends.map(({ checked }) => checked),
      knowledge,
    )
    const decided = sends.map((send, i): Decided => ({ send, decision: decisions[i]! }))
    const nameless = decided.filter(
      ({ decision, send }) =>
        decision.type === 'accept' && send.messageId === null && send.checked.messageId === null,
    )
    const ids = nameless.map(() => options.makeMessageId(found.at)).toSorted()
    for (const [i, { send }] of nameless.entries()) send.messageId = ids[i]!
    for (const { decision, send } of decided) {
      send.request.createdAt ??= found.at
      if (decision.type === 'join') publisher.join(decision.messageId, { send, view: decision.view })
      else if (isNew(decision) && decision.draft.class === 'otp') publisher.begin(idFor(send, decision))
    }
    return decided
  }

  const idFor = (send: PendingSend, decision: Decision): string => {
    const id = decision.type === 'republish' ? decision.messageId : (send.messageId ?? send.checked.messageId)
    if (id === null) throw new Error('a send without its id')
    return id
  }

  /** Refused by a limit: nothing of it is being published. */
  const stop = (one: Decided, error: ApiError): void => {
    if (isNew(one.decision)) requeue(idFor(one.send, one.decision))
    one.decision = { type: 'refuse', error }
  }

  /** Once for a whole request, before anything of it is created. */
  const askTheDay = Effect.fnUntraced(function* (at: number, decided: ReadonlyArray<Decided>) {
    const creating = new Set(
      decided.filter(({ decision }) => isNew(decision)).map(({ send }) => send.request),
    )
    if (creating.size === 0) return
    const today = yield* Effect.cached(limits.daily(at))
    for (const request of creating) request.dailyLimit ??= today
    const stopped = new Map<PendingRequest, ApiError>()
    for (const request of creating) {
      const seconds = yield* request.dailyLimit ?? today
      if (seconds !== null) {
        stopped.set(request, apiError('hub_daily_limit_reached', { retryAfter: seconds }))
      }
    }
    if (stopped.size === 0) return
    for (const one of decided) {
      const error = stopped.get(one.send.request)
      if (error !== undefined && one.decision.type !== 'join') stop(one, error)
    }
  })

  const askTheWindows = Effect.fnUntraced(function* (decided: ReadonlyArray<Decided>) {
    const asking = decided.filter(({ decision }) => isNew(decision))
    if (asking.length === 0) return
    const verdicts = yield* limits.reserve(asking.map(reservationOf))
    for (const [i, one] of asking.entries()) {
      const error = verdicts[i] ?? null
      if (error === null) one.send.reserved = true
      else stop(one, error)
    }
  })

  const reservationOf = ({ decision, send }: Decided): SendReservation => {
    if (!isNew(decision)) throw new Error('a send that is not new takes no place')
    return { checked: send.checked, draft: decision.draft, messageId: idFor(send, decision) }
  }

  /** Gives places back that are not going to be anybody's. */
  const giveBack = (reservations: ReadonlyArray<SendReservation>): Effect.Effect<void> =>
    reservations.length === 0 ? Effect.void : runInBackground(limits.giveBack(reservations))

  /** Repeats and refusals have their answer now. */
  const answerWhatIsKnown = Effect.fnUntraced(function* (decided: ReadonlyArray<Decided>) {
    const unused: Array<SendReservation> = []
    for (const { decision, send } of decided) {
      if (decision.type === 'refuse') waiting.refuse(send, decision.error)
      if (decision.type !== 'duplicate') continue
      const { checked } = send
      // It lost its reference to a send to another number. To the same one the two have one place between them.
      if (send.reserved && decision.recipient !== checked.recipient && Result.isSuccess(checked.draft)) {
        unused.push({ checked, draft: checked.draft.success, messageId: decision.view.id })
      }
      send.reserved = false
      waiting.answer(send, decision.view, !decision.byKey)
    }
    yield* giveBack(unused)
  })

  // -------------------------------------------------------------------------------------------------------
  // Steps 3 and 4: sealing and recording
  // -------------------------------------------------------------------------------------------------------

  const prepare = (
    at: number,
    keys: ReadonlyMap<string, PayloadKey>,
    decided: ReadonlyArray<Decided>,
  ): ReadonlyArray<PreparedSend> => {
    const prepared: Array<PreparedSend> = []
    for (const one of decided) {
      const { decision, send } = one
      if (!isNew(decision)) continue
      const { draft } = decision
      const key = keys.get(draft.class)
      if (key === undefined) throw new Error('a class without its sealing key')
      const { checked } = send
      const messageId = idFor(send, decision)
      const accepted: MessageAccepted = accept({
        messageId,
        at,
        account: checked.owner.account,
        mode: checked.owner.mode,
        class: draft.class,
        recipient: draft.recipient,
        scenario: draft.scenario,
        template: draft.template,
        sender: draft.sender,
        clientRef: checked.clientRef,
        batch: checked.batch,
        rendered: draft.rendered,
        pricePerPart: draft.pricePerPart,
        lifetimes: options.lifetimes,
        sealingKey: key.id,
        sealed: key.encrypt(messageId, payloadOf(draft)),
      })
      const again = decision.type === 'republish'
      const fact = again ? republish(accepted) : accepted
      const entry: LedgerEntry = {
        owner: checked.owner,
        fact,
        toMasked: draft.toMasked,
        spendLimit: draft.spendLimit,
        lock: send.request.context.lock ?? null,
      }
      prepared.push({
        send,
        reservation: reservationOf(one),
        entry,
        record: acceptedRecord(options.topics, fact, traced(send)),
        view: acceptedView(fact, draft.toMasked),
        again,
      })
    }
    return prepared
  }

  const sealRecord = (row: BatchRow, at: number): OutgoingRecord => {
    const sealed: BatchSealed = {
      type: 'BatchSealed',
      batch: row.id,
      account: row.owner.account,
      mode: row.owner.mode,
      total: row.total,
      accepted: row.accepted,
      duplicate: row.duplicate,
      rejected: row.rejected,
      createdAt: row.createdAt,
      at,
    }
    return batchSealedRecord(options.topics, sealed)
  }

  const rowOf = (outcome: BatchOutcome, createdAt: number, sealedAt: number | null): BatchRow => ({
    ...outcome,
    createdAt,
    sealedAt,
  })

  /** Whether a send is recorded by a commit that went so. */
  const isRecorded = (unrecorded: Unrecorded, { view }: PreparedSend): boolean =>
    !unrecorded.lost.has(view.id) && !unrecorded.overspent.has(view.id) && !unrecorded.lockLost.has(view.id)

  /**
   * Money that a lost reference did not take after all may be enough for a send that was refused for it: where both happen, the
   * refused ones ask again.
   */
  const isRefusedForMoney = (unrecorded: Unrecorded, { view }: PreparedSend): boolean =>
    unrecorded.overspent.has(view.id) && unrecorded.lost.size === 0

  /** The outcomes that a commit brings, by send; those of codes come with their publication. */
  const outcomesOf = (
    unrecorded: Unrecorded,
    decided: ReadonlyArray<Decided>,
    prepared: ReadonlyArray<PreparedSend>,
  ): ReadonlyMap<PendingSend, SendOutcome> => {
    const outcomes = new Map<PendingSend, SendOutcome>()
    for (const one of prepared) {
      if (isRefusedForMoney(unrecorded, one)) outcomes.set(one.send, Result.fail(OVER_LIMIT))
      else if (unrecorded.lockLost.has(one.view.id)) outcomes.set(one.send, Result.fail(ABANDONED))
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

  /** What a commit makes known of whole requests: batches and answers go into the same transaction. */
  const conclude = (
    at: number,
    prepared: ReadonlyArray<PreparedSend>,
    unrecorded: Unrecorded,
    outcomes: ReadonlyMap<PendingSend, SendOutcome>,
  ) => {
    const batches: Array<BatchRow> = []
    const answers: Array<ExtraWrites['answers'][number]> = []
    const seals: Array<OutgoingRecord> = []
    const sealed: Array<PendingRequest> = []
    const stored: Array<PendingRequest> = []
    const recorded = new Set<PendingRequest>()
    for (const one of prepared) if (isRecorded(unrecorded, one)) recorded.add(one.send.request)
    for (const request of new Set(prepared.map(({ send }) => send.request))) {
      const { batch, answer, lock } = request.context
      if (batch === undefined && lock === undefined) continue
      const known = request.sends.map((send) => send.outcome ?? outcomes.get(send) ?? null)
      const all = known.filter((outcome) => outcome !== null)
      // Whoever was told before it was known may have been told otherwise: the sweeper counts what the ledger has.
      const isComplete = all.length === known.length && !request.doubtful
      const createdAt = request.createdAt ?? at
      if (batch !== undefined) {
        const outcome = batchOutcome(batch, all)
        // With codes it is sealed when all are answered: what they say of each other has to be asked then.
        if (isComplete && outcome.exists && outcome.codes === 0) {
          const row = rowOf(outcome, createdAt, at)
          batches.push(row)
          seals.push(sealRecord(row, at))
          sealed.push(request)
        } else if (recorded.has(request)) batches.push(rowOf(outcome, createdAt, null))
      }
      if (isComplete && lock !== undefined && answer !== undefined) {
        const made = answer(all, createdAt)
        if (made !== null) {
          answers.push({ lock, answer: made })
          stored.push(request)
        }
      }
    }
    return { answers, batches, recorded, sealed, seals, stored }
  }

  const record = Effect.fnUntraced(function* (
    at: number,
    decided: ReadonlyArray<Decided>,
    prepared: ReadonlyArray<PreparedSend>,
  ) {
    if (prepared.length === 0) return
    const settled = settledRows.splice(0)
    let concluded: ReturnType<typeof conclude> | null = null
    const committed = yield* ledger
      .commit({
        accepted: prepared.filter(({ again }) => !again).map(({ entry }) => entry),
        republished: prepared.filter(({ again }) => again).map(({ entry }) => entry),
        extraWrites: (unrecorded) => {
          concluded = conclude(at, prepared, unrecorded, outcomesOf(unrecorded, decided, prepared))
          const records = prepared
            .filter((one) => one.entry.fact.class === 'service' && isRecorded(unrecorded, one))
            .map((one) => one.record)
          const all = [...records, ...concluded.seals]
          return {
            outbox: all.length === 0 ? null : encodeOutboxRow(all),
            batches: concluded.batches,
            answers: concluded.answers,
          }
        },
        settled,
      })
      .pipe(Effect.tapError(() => Effect.sync(() => settledRows.push(...settled))))
    // Before anybody is answered: whoever waits for a request looks at these.
    const { recorded, sealed, seals, stored } = concluded!
    for (const request of recorded) request.recorded = true
    for (const request of sealed) request.sealed = true
    for (const request of stored) request.stored = true
    if (tracing.isOn) traceRecorded(recorded)
    yield* publishRecorded(at, decided, prepared, committed, seals)
  })

  /** From a request's arrival until its sends, or the first of them, were recorded. */
  const traceRecorded = (recorded: ReadonlySet<PendingRequest>): void => {
    for (const { arrivedAt, sends, context } of recorded) {
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

  /** Answers what is recorded, and gives it on to be published. */
  const publishRecorded = Effect.fnUntraced(function* (
    at: number,
    decided: ReadonlyArray<Decided>,
    prepared: ReadonlyArray<PreparedSend>,
    committed: CommitResult,
    seals: ReadonlyArray<OutgoingRecord>,
  ) {
    const outcomes = outcomesOf(committed, decided, prepared)
    const codes: Array<PublishedCode> = []
    const safe: Array<OutgoingRecord> = []
    const accepted: Array<SendReservation> = []
    const unused: Array<SendReservation> = []
    const again: Array<PendingSend> = []
    for (const one of prepared) {
      const { reservation, record: written, send, view } = one
      if (!isRecorded(committed, one)) {
        requeue(view.id)
        const outcome = outcomes.get(send)
        if (outcome === undefined) again.push(send)
        else {
          // Whoever has the claim now has the same id, and so the same place.
          if (!committed.lockLost.has(view.id)) unused.push(reservation)
          waiting.settle(send, outcome)
        }
      } else if (one.entry.fact.class === 'service') {
        safe.push(written)
        accepted.push(reservation)
        send.reserved = false
        waiting.answer(send, view, false)
      } else codes.push({ send, reservation, view, record: written })
    }
    for (const { decision, send } of decided) {
      if (decision.type !== 'follow') continue
      const outcome = outcomes.get(send)
      const leader = decided[decision.leader]!
      const code = codes.find((one) => one.send === leader.send)
      if (outcome !== undefined) waiting.settle(send, outcome)
      else if (code !== undefined) publisher.join(code.view.id, { send, view: code.view })
      else again.push(send)
    }
    queue.unshift(...again)
    publisher.push({ outboxRow: committed.outboxRow, safe: [...safe, ...seals], codes })
    if (accepted.length > 0) yield* runInBackground(limits.accepted(accepted, at))
    yield* giveBack(unused)
  })

  const attempt = Effect.fnUntraced(function* (sends: ReadonlyArray<PendingSend>) {
    const keys = yield* keysFor(sends)
    const found = yield* lookup(sends)
    const decided = decide(sends, found)
    const rest = Effect.gen(function* () {
      yield* askTheDay(found.at, decided)
      yield* askTheWindows(decided)
      yield* answerWhatIsKnown(decided)
      const prepared = prepare(found.at, keys, decided)
      if (prepared.length > 0) return yield* record(found.at, decided, prepared)
      // Their leaders were refused.
      queue.unshift(...decided.filter(({ decision }) => decision.type === 'follow').map(({ send }) => send))
    })
    yield* Effect.tapCause(rest, () =>
      Effect.sync(() => {
        for (const { decision, send } of decided) {
          if (isNew(decision)) requeue(idFor(send, decision))
        }
      }),
    )
  })

  /** Never fails: every send is answered, queued again, or being published afterwards. */
  const flush = (sends: ReadonlyArray<PendingSend>): Effect.Effect<void> =>
    attempt(sends).pipe(
      Effect.catch((error) => {
        const left = sends.filter((send) => send.outcome === null && !publisher.hasJoined(send))
        if (error._tag === 'StorageRejected' && left.length > 1) {
          const middle = Math.ceil(left.length / 2)
          return Effect.andThen(flush(left.slice(0, middle)), flush(left.slice(middle)))
        }
        const refused = error._tag === 'StorageRejected'
        // Certain that nothing was recorded. Otherwise places lapse by themselves, unless it was recorded and is repeated.
        const undone = refused || (error._tag === 'StorageUnavailable' && error.reason === 'conflict')
        const answer = refused ? apiError('invalid_parameter') : STORAGE_DOWN
        const unused: Array<SendReservation> = []
        for (const send of left) {
          const { checked } = send
          const messageId = send.messageId ?? checked.messageId
          if (undone && send.reserved && messageId !== null && Result.isSuccess(checked.draft)) {
            unused.push({ checked, draft: checked.draft.success, messageId })
          }
          if (!undone) send.request.doubtful = true
          waiting.refuse(send, answer)
        }
        return Effect.andThen(
          giveBack(unused),
          Effect.logError(refused ? 'PostgreSQL refused a send' : 'sends could not be recorded').pipe(
            Effect.annotateLogs({ sends: left.length, error: error._tag, ...describe(error) }),
          ),
        )
      }),
    )

  const recordLoop = Effect.gen(function* () {
    yield* somethingQueued.await
    // Whoever came in the same turn goes along.
    yield* Effect.yieldNow
    if (!isWorthIt()) return wake()
    const sends = take()
    if (sends.length === 0) return wake()
    flushing++
    underWay += sends.length
    wake()
    const from = yield* Clock.currentTimeMillis
    yield* flush(sends).pipe(
      Effect.catchCause((cause) => {
        if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
        for (const send of sends) {
          send.request.doubtful = true
          waiting.refuse(send, apiError('internal_error'))
        }
        return Effect.logError('a flush failed unexpectedly', cause)
      }),
    )
    flushing--
    underWay -= sends.length
    checkQuiet()
    wake()
    yield* Metric.update(flushSize, sends.length)
    yield* Metric.update(flushSeconds, ((yield* Clock.currentTimeMillis) - from) / 1000)
    yield* Metric.update(waitingSends, waiting.count())
  })

  // -------------------------------------------------------------------------------------------------------
  // Step 6: batches whose outcome is known now
  // -------------------------------------------------------------------------------------------------------

  /** Seals a batch that no flush could seal. What fails here is the sweeper's, if any of it is in the ledger. */
  const sealBatch = Effect.fnUntraced(function* (
    request: PendingRequest,
    outcomes: ReadonlyArray<SendOutcome>,
  ) {
    const { batch } = request.context
    if (batch === undefined || request.sealed || request.doubtful) return
    const outcome = batchOutcome(batch, outcomes)
    if (!outcome.exists) return
    const sealing = Effect.gen(function* () {
      request.createdAt ??= (yield* ledger.lookup({ references: [], recipients: [], remembered: [] })).at
      // As much later as this process has seen pass since the request came.
      const at = request.createdAt + Math.max(0, (yield* Clock.currentTimeMillis) - request.arrivedAt)
      const row = rowOf(outcome, request.createdAt, at)
      const seal = sealRecord(row, at)
      const outboxRow = yield* ledger.seal(row, outcome.codes, encodeOutboxRow([seal]))
      request.sealed = true
      if (outboxRow !== null) publisher.push({ outboxRow, safe: [seal], codes: [] })
    })
    yield* sealing.pipe(
      Effect.catch((error) =>
        Effect.logWarning('a batch could not be sealed').pipe(
          Effect.annotateLogs({ batch: batch.id, error: error._tag }),
        ),
      ),
    )
  })

  // -------------------------------------------------------------------------------------------------------
  // Bounds
  // -------------------------------------------------------------------------------------------------------

  const sweep = Effect.map(Clock.currentTimeMillis, (now) => waiting.sweep(now))

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
  yield* Effect.forkScoped(Effect.forever(publisher.loop))
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

  return BatchingAcceptor.of({
    accept: Effect.fnUntraced(function* (checkedSends, context = {}) {
      if (!waiting.hasRoomFor(checkedSends.length)) {
        return {
          outcomes: checkedSends.map(() => Result.fail(OVERLOADED)),
          batchCreatedAt: null,
          stored: false,
        }
      }
      const request = waiting.open(checkedSends, context, yield* Clock.currentTimeMillis)
      queue.push(...request.sends)
      wake()
      yield* Deferred.await(request.done)
      const outcomes = request.sends.map(({ outcome }) => outcome ?? Result.fail(NOT_QUEUED))
      yield* sealBatch(request, outcomes)
      const exists = context.batch !== undefined && (request.sealed || request.recorded)
      return {
        outcomes,
        batchCreatedAt: exists ? request.createdAt : null,
        stored: request.stored,
      }
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

export const acceptorLayer = (
  options: AcceptorOptions,
): Layer.Layer<BatchingAcceptor, never, Ledger | EventLog | PayloadEncryption | OutboxMode | Limits> =>
  Layer.effect(BatchingAcceptor, make(options))
