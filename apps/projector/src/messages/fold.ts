/**
 * What a poll's facts change. Pure: the rows as they are come in, the changes go out as data, and the transaction
 * writes them.
 *
 * Lanes and log are read side by side, so a fact may come before its `MessageAccepted`: the row then waits, and so do
 * its events. Facts of one message in the log are in one order, that of its partition, and that order is kept;
 * otherwise nothing here depends on how lanes and log are interleaved, on what comes twice, or on where a
 * poll ends. A replay of everything changes nothing.
 */
import {
  eventsOf,
  factIdOf,
  isBilled,
  isFinal,
  type MessageAccepted,
  type MessageFact,
  type Mode,
  type Money,
  billedPrice,
  type PublicEvent,
  rank,
  supersedes,
  type ReasonCode,
  spendPeriodOf,
  type Status,
  statusOf,
} from '@hub/domain'
import { type BatchChange, type StatsChange, Tally } from '../aggregates/deltas.ts'
import type { MessageRow, StatusChange, Subject } from './row.ts'

/** A line of a message's history. */
export interface HistoryLine extends StatusChange {
  readonly messageId: string
  /** Canonical UUID text. */
  readonly factId: string
}

/** An operator's id of a message or of a part of it. */
export interface OperatorId {
  readonly operator: string
  readonly operatorId: string
  readonly messageId: string
  readonly sentAt: number
}

/** An event to be recorded, and in whose journal. */
export interface JournalEntry {
  readonly account: string
  readonly mode: Mode
  readonly event: PublicEvent
}

/** A line of the ledger of charges: what a live message cost at acceptance, or that it was not billed after all. */
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

/** What a poll changes. A row is in one of the three lists at most. */
export interface Changes {
  /** Rows whose acceptance is in this poll. */
  readonly accepted: ReadonlyArray<{ readonly row: MessageRow; readonly fact: MessageAccepted }>
  /** Rows accepted before. */
  readonly updated: ReadonlyArray<MessageRow>
  /** Rows that still wait for their acceptance. */
  readonly unaccepted: ReadonlyArray<MessageRow>
  readonly history: ReadonlyArray<HistoryLine>
  readonly operatorIds: ReadonlyArray<OperatorId>
  /** In the order in which they are to be recorded. */
  readonly events: ReadonlyArray<JournalEntry>
  /** By how much sums over messages move. */
  readonly batches: ReadonlyArray<BatchChange>
  readonly stats: ReadonlyArray<StatsChange>
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
        handedOver: false,
        seen: false,
        updatedAt: 0,
        waiting: [],
        changed: false,
        acceptedNow: null,
      }
    : { ...row, changed: false, acceptedNow: null }

const subjectOf = (fact: MessageAccepted): Subject => ({
  messageId: fact.messageId,
  at: fact.at,
  account: fact.account,
  mode: fact.mode,
  class: fact.class,
  clientRef: fact.clientRef,
  batch: fact.batch,
  template: fact.template,
  parts: fact.parts,
  // Nothing is charged in test mode, whatever the fact says. Source: contract, General (tariff).
  price: fact.mode === 'test' ? { amount: '0.00', currency: fact.price.currency } : fact.price,
})

/** The fact behind a change of status, as far as its event tells of it. */
const factBehind = (messageId: string, { status, reason, at }: StatusChange): MessageFact | null => {
  switch (status) {
    case 'accepted':
      return null
    case 'sent':
      return { type: 'MessageSent', messageId, at, operator: '', operatorIds: [], reportDeadline: at }
    case 'delivered':
      return { type: 'MessageDelivered', messageId, at }
    case 'undelivered':
      return { type: 'MessageUndelivered', messageId, at, reason: reason as never }
    case 'rejected':
      return { type: 'MessageRejected', messageId, at, reason: reason as never }
    case 'expired':
      return { type: 'MessageExpired', messageId, at, reason: reason as never }
  }
}

/** Only an operator that has the message can say so; `undelivered` and `rejected` it may say instead of taking it. */
const provesHandover = (fact: MessageFact): boolean =>
  fact.type === 'MessageSent' ||
  fact.type === 'MessageDelivered' ||
  (fact.type === 'MessageExpired' && fact.reason !== 'ttl_expired_before_submit')

const rankOf = (change: { readonly status: Status; readonly reason: ReasonCode | null }) =>
  rank(change.status, change.reason)

/**
 * Folds facts into rows. `rows` holds what is stored of every message that the facts are about, as far as anything is;
 * `facts` are those of a poll, each partition's in its order, void claims left out.
 */
export const fold = (rows: ReadonlyMap<string, MessageRow>, facts: Iterable<MessageFact>): Changes => {
  const drafts = new Map<string, Draft>()
  const history: Array<HistoryLine> = []
  const operatorIds: Array<OperatorId> = []
  const events: Array<JournalEntry> = []
  const charges: Array<Charge> = []

  const tell = (draft: Draft, fact: MessageFact) => {
    const { subject } = draft
    if (subject === null) return
    for (const event of eventsOf(subject, fact)) {
      events.push({ account: subject.account, mode: subject.mode, event })
    }
  }
  /** Nothing is charged in test mode. */
  const charge = ({ messageId, subject }: Draft, kind: Charge['kind'], at: number) => {
    if (subject === null || subject.mode === 'test') return
    const { account, price: amount } = subject
    charges.push({ messageId, kind, account, period: spendPeriodOf(subject.at).day, amount, at })
  }
  const touch = (draft: Draft, at: number) => {
    draft.changed = true
    if (at > draft.updatedAt) draft.updatedAt = at
  }
  const noteIds = (operator: string, ids: ReadonlyArray<string>, messageId: string, sentAt: number) => {
    for (const operatorId of ids) operatorIds.push({ operator, operatorId, messageId, sentAt })
  }

  for (const fact of facts) {
    const { messageId } = fact
    let draft = drafts.get(messageId)
    if (draft === undefined) drafts.set(messageId, (draft = draftOf(messageId, rows.get(messageId))))

    switch (fact.type) {
      case 'MessageAccepted': {
        if (draft.subject !== null) {
          // Its first publication landed although its client was told that it had not, and it was sent anew: it belongs to what its client
          // was told last, and nothing else about it is new.
          if (fact.republished && fact.batch !== draft.subject.batch) {
            draft.subject = { ...draft.subject, batch: fact.batch }
            draft.changed = true
          }
          break
        }
        draft.subject = subjectOf(fact)
        draft.acceptedNow = fact
        touch(draft, fact.at)
        history.push({ messageId, factId: factIdOf(fact), status: 'accepted', reason: null, at: fact.at })
        charge(draft, 'charge', fact.at)
        tell(draft, fact)
        for (const change of draft.waiting.toSorted((a, b) => rankOf(a) - rankOf(b))) {
          if (!isBilled(change.status, change.reason)) charge(draft, 'reversal', change.at)
          const behind = factBehind(messageId, change)
          if (behind !== null) tell(draft, behind)
        }
        draft.waiting = []
        if (draft.seen) tell(draft, { type: 'MessageSeen', messageId, at: draft.updatedAt })
        break
      }
      case 'HandoverStarted':
        if (fact.attempt > draft.attempts) {
          draft.attempts = fact.attempt
          touch(draft, fact.at)
        }
        break
      // It says nothing that its claim has not said.
      case 'HandoverRefused':
        break
      case 'OpenMessageCarried':
        noteIds(fact.operator, fact.operatorIds, messageId, fact.sentAt)
        break
      case 'MessageSeen':
        if (!draft.seen) {
          draft.seen = true
          touch(draft, fact.at)
          tell(draft, fact)
        }
        break
      case 'MessageSent':
      case 'MessageDelivered':
      case 'MessageUndelivered':
      case 'MessageRejected':
      case 'MessageExpired': {
        if (fact.type === 'MessageSent') noteIds(fact.operator, fact.operatorIds, messageId, fact.at)
        if (!draft.handedOver && provesHandover(fact)) {
          draft.handedOver = true
          draft.changed = true
        }
        const next = statusOf(fact)
        // What takes no other's place came twice or lost a race, and tells nobody anything.
        if (next === null || !supersedes(next, draft)) break
        draft.status = next.status
        draft.reason = next.reason
        touch(draft, fact.at)
        const change: StatusChange = { ...next, at: fact.at }
        history.push({ ...change, messageId, factId: factIdOf(fact) })
        if (draft.subject === null) {
          draft.waiting = [...draft.waiting, change]
          break
        }
        if (!isBilled(next.status, next.reason)) charge(draft, 'reversal', fact.at)
        tell(draft, fact)
        break
      }
    }
  }

  const accepted: Array<{ readonly row: MessageRow; readonly fact: MessageAccepted }> = []
  const updated: Array<MessageRow> = []
  const unaccepted: Array<MessageRow> = []
  const tally = new Tally()
  for (const { changed, acceptedNow, ...row } of drafts.values()) {
    if (!changed) continue
    tally.add(rows.get(row.messageId), row)
    if (acceptedNow !== null) accepted.push({ row, fact: acceptedNow })
    else if (row.subject !== null) updated.push(row)
    else unaccepted.push(row)
  }
  const { batches, stats } = tally
  return { accepted, updated, unaccepted, history, operatorIds, events, batches, stats, charges }
}

/** What the row shows beside its fields: whether it is final, its rank, and what was charged for it in the end. */
export const shown = (row: MessageRow) => ({
  final: isFinal(row.status),
  rank: rank(row.status, row.reason),
  price: row.subject === null ? null : billedPrice(row.subject.price, row.status, row.reason),
})
