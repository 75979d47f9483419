/**
 * Folds facts into the rows of messages. Pure: returns the changes for the transaction to write.
 *
 * Lanes and log are read in parallel, so a fact may arrive before its `MessageAccepted`. The row
 * and its events then wait. The log keeps the facts of a message in order. Apart from that, the
 * result does not depend on the interleaving of lanes and log, on repetitions, or on where a batch
 * ends. A replay of everything changes nothing.
 */
import {
  isBilled,
  isFinal,
  type MessageAccepted,
  type MessageFact,
  type Mode,
  type Money,
  billedPrice,
  type PublicEvent,
  rank,
  seenEvent,
  supersedes,
  spendPeriodOf,
  statusEvent,
  statusOf,
} from '@hub/domain'
import {
  type BatchDelta,
  type DailyDelta,
  type HourlyDelta,
  type RangeDelta,
  AggregateDeltas,
} from './aggregate-deltas.ts'
import { changesOf, type MessageRow, type Subject } from './row.ts'

/** The id that an operator gave to a message or to a part of it. */
export interface OperatorId {
  readonly operator: string
  readonly operatorId: string
  readonly messageId: string
  readonly sentAt: number
}

/** An event to record, with its journal. */
export interface JournalEntry {
  readonly account: string
  readonly mode: Mode
  readonly event: PublicEvent
}

/** The price of a live message at acceptance (`charge`), or its cancellation (`reversal`). */
export interface Charge {
  readonly messageId: string
  readonly kind: 'charge' | 'reversal'
  /** `acc_…` */
  readonly account: string
  /** First day of the period of acceptance, `2026-11-01`. */
  readonly period: string
  readonly amount: Money
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** What a transaction changes. A row is in at most one of the first three lists. */
export interface Changes {
  /** Rows whose acceptance is in this transaction. */
  readonly accepted: ReadonlyArray<{ readonly row: MessageRow; readonly fact: MessageAccepted }>
  /** Rows accepted before. */
  readonly updated: ReadonlyArray<MessageRow>
  /** Rows that wait for their acceptance. */
  readonly unaccepted: ReadonlyArray<MessageRow>
  readonly operatorIds: ReadonlyArray<OperatorId>
  /** In the order in which they must be recorded. */
  readonly events: ReadonlyArray<JournalEntry>
  readonly batches: ReadonlyArray<BatchDelta>
  readonly dailyStats: ReadonlyArray<DailyDelta>
  readonly hourlyStats: ReadonlyArray<HourlyDelta>
  readonly rangeStats: ReadonlyArray<RangeDelta>
  readonly charges: ReadonlyArray<Charge>
}

type Draft = { -readonly [Key in keyof MessageRow]: MessageRow[Key] } & {
  changed: boolean
  acceptedNow: MessageAccepted | null
}

const draftOf = (messageId: string, row: MessageRow | undefined): Draft =>
  row === undefined
    ? {
        messageId,
        subject: null,
        status: 'accepted',
        reason: null,
        attempts: 0,
        claims: 0,
        claimOpen: false,
        acceptedByOperator: false,
        seen: false,
        updatedAt: 0,
        sentAt: null,
        timedOutAt: null,
        finalAt: null,
        changed: false,
        acceptedNow: null,
      }
    : { ...row, changed: false, acceptedNow: null }

const subjectOf = (fact: MessageAccepted): Subject => ({
  messageId: fact.messageId,
  at: fact.at,
  account: fact.account,
  mode: fact.mode,
  numberRange: fact.numberRange ?? null,
  class: fact.class,
  clientRef: fact.clientRef,
  batch: fact.batch,
  template: fact.template,
  parts: fact.parts,
  // Test messages are free, whatever the fact says. Source: LIM-19.
  price: fact.mode === 'test' ? { amount: '0.00', currency: fact.price.currency } : fact.price,
})

/** Whether an operator accepted the message. It may refuse by `undelivered` or `rejected`. */
const provesAcceptanceByOperator = (fact: MessageFact): boolean =>
  fact.type === 'MessageSent' ||
  fact.type === 'MessageDelivered' ||
  (fact.type === 'MessageExpired' && fact.reason !== 'ttl_expired_before_submit')

/** Whether the fact tells that the submit of the last claim left the hub. */
const answersClaim = (fact: MessageFact): boolean =>
  fact.type !== 'MessageExpired' || fact.reason !== 'ttl_expired_before_submit'

/** The time of the change to each rank of a status. That of `accepted` is the time of the acceptance. */
const TIME_OF_RANK = [null, 'sentAt', 'timedOutAt', 'finalAt'] as const

/**
 * `rows`: the stored rows of the messages that the facts concern. `facts`: the facts of a batch
 * without void ones, those of each partition in their order.
 */
export const fold = (rows: ReadonlyMap<string, MessageRow>, facts: Iterable<MessageFact>): Changes => {
  const drafts = new Map<string, Draft>()
  const operatorIds: Array<OperatorId> = []
  const events: Array<JournalEntry> = []
  const charges: Array<Charge> = []

  const emit = ({ account, mode }: Subject, event: PublicEvent) => events.push({ account, mode, event })
  const charge = ({ messageId, subject }: Draft, kind: Charge['kind'], at: number) => {
    if (subject === null || subject.mode === 'test') return
    const { account, price: amount } = subject
    charges.push({ messageId, kind, account, period: spendPeriodOf(subject.at).day, amount, at })
  }
  const touch = (draft: Draft, at: number) => {
    draft.changed = true
    if (at > draft.updatedAt) draft.updatedAt = at
  }
  const setAttempts = (draft: Draft, attempts: number, at: number) => {
    draft.changed = true
    if (attempts === draft.attempts) return
    draft.attempts = attempts
    touch(draft, at)
  }
  const addOperatorIds = (
    { messageId, operator, operatorIds: ids }: Extract<MessageFact, { readonly operatorIds: unknown }>,
    sentAt: number,
  ) => {
    for (const operatorId of ids) operatorIds.push({ operator, operatorId, messageId, sentAt })
  }

  for (const fact of facts) {
    const { messageId } = fact
    let draft = drafts.get(messageId)
    if (draft === undefined) drafts.set(messageId, (draft = draftOf(messageId, rows.get(messageId))))

    switch (fact.type) {
      case 'MessageAccepted': {
        // A repetition, or a second publication. A message never changes its batch.
        if (draft.subject !== null) break
        draft.subject = subjectOf(fact)
        draft.acceptedNow = fact
        touch(draft, fact.at)
        charge(draft, 'charge', fact.at)
        emit(draft.subject, statusEvent(draft.subject, { status: 'accepted', reason: null }))
        for (const change of changesOf(draft)) {
          if (!isBilled(change.status, change.reason)) charge(draft, 'reversal', change.at)
          emit(draft.subject, statusEvent(draft.subject, change))
        }
        if (draft.seen) emit(draft.subject, seenEvent(draft.subject))
        break
      }
      // Whether the claim leads to a submit is not known yet. An earlier claim without an outcome
      // counts, because the operator may have the message.
      case 'HandoverStarted':
        if (fact.attempt <= draft.claims) break
        draft.claims = fact.attempt
        draft.claimOpen = true
        setAttempts(draft, fact.attempt - 1 - (fact.unsubmitted ?? 0), fact.at)
        break
      case 'HandoverRefused':
        if (fact.attempt < draft.claims || (fact.attempt === draft.claims && !draft.claimOpen)) break
        draft.claims = fact.attempt
        draft.claimOpen = false
        setAttempts(draft, fact.attempt - (fact.unsubmitted ?? 0), fact.at)
        break
      case 'OpenMessageCarried':
        addOperatorIds(fact, fact.sentAt)
        break
      case 'MessageSeen':
        if (!draft.seen) {
          draft.seen = true
          touch(draft, fact.at)
          if (draft.subject !== null) emit(draft.subject, seenEvent(draft.subject))
        }
        break
      case 'MessageSent':
      case 'MessageDelivered':
      case 'MessageUndelivered':
      case 'MessageRejected':
      case 'MessageExpired': {
        if (fact.type === 'MessageSent') addOperatorIds(fact, fact.at)
        if (!draft.acceptedByOperator && provesAcceptanceByOperator(fact)) {
          draft.acceptedByOperator = true
          draft.changed = true
        }
        if (draft.claimOpen && answersClaim(fact)) {
          draft.claimOpen = false
          setAttempts(draft, draft.attempts + 1, fact.at)
        }
        const next = statusOf(fact)
        // Any other status is a repetition or lost a race: it causes no event.
        if (next === null || !supersedes(next, draft)) break
        draft.status = next.status
        draft.reason = next.reason
        touch(draft, fact.at)
        const time = TIME_OF_RANK[rank(next.status, next.reason)]
        if (time !== null) draft[time] = fact.at
        // Its event waits for the acceptance.
        if (draft.subject === null) break
        if (!isBilled(next.status, next.reason)) charge(draft, 'reversal', fact.at)
        emit(draft.subject, statusEvent(draft.subject, next))
        break
      }
    }
  }

  const accepted: Array<{ readonly row: MessageRow; readonly fact: MessageAccepted }> = []
  const updated: Array<MessageRow> = []
  const unaccepted: Array<MessageRow> = []
  const deltas = new AggregateDeltas()
  for (const { changed, acceptedNow, ...row } of drafts.values()) {
    if (!changed) continue
    deltas.add(rows.get(row.messageId), row)
    if (acceptedNow !== null) accepted.push({ row, fact: acceptedNow })
    else if (row.subject !== null) updated.push(row)
    else unaccepted.push(row)
  }
  const { batches, daily: dailyStats, hourly: hourlyStats, ranges: rangeStats } = deltas
  return {
    accepted,
    updated,
    unaccepted,
    operatorIds,
    events,
    batches,
    dailyStats,
    hourlyStats,
    rangeStats,
    charges,
  }
}

/** Columns that follow from other fields: final or not, rank, and final price. */
export const derivedColumns = (row: MessageRow) => ({
  final: isFinal(row.status),
  rank: rank(row.status, row.reason),
  price: row.subject === null ? null : billedPrice(row.subject.price, row.status, row.reason),
})
