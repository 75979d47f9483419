/** The fold of facts into the state of a message. */
import type { MessageAccepted, MessageFact, ReasonCode } from './fact.ts'
import { isFinal, type MessageState, type Status, supersedes } from './state.ts'

const accepted = (fact: MessageAccepted): MessageState => ({
  ...unknownMessage(fact.messageId),
  accepted: true,
  class: fact.class,
  parts: fact.parts,
  expiresAt: fact.expiresAt,
})

/** The state of a message whose `MessageAccepted` has not been read yet. */
const unknownMessage = (messageId: string): MessageState => ({
  id: messageId,
  accepted: false,
  class: 'service',
  status: 'accepted',
  final: false,
  reason: null,
  stage: 'queued',
  parts: null,
  attempts: 0,
  unsubmitted: 0,
  expiresAt: Number.POSITIVE_INFINITY,
  retryAt: 0,
  sentAt: null,
  reportDeadline: null,
  operator: null,
  operatorIds: [],
  seen: false,
})

/** Adds the ids of an answer that came after `AssumeSent`. Known ids never change. */
const withIds = (state: MessageState, operatorIds: ReadonlyArray<string>): MessageState =>
  state.operatorIds.length === 0 && operatorIds.length > 0 ? { ...state, operatorIds } : state

/** Adds the number of parts from a fact of the log. The acceptance replaces it. */
const withParts = (state: MessageState, parts: number | null | undefined): MessageState =>
  state.parts === null && typeof parts === 'number' ? { ...state, parts } : state

/** Returns the status that a fact reports, or `null` if it reports none. */
export const statusOf = (
  fact: MessageFact,
): { readonly status: Status; readonly reason: ReasonCode | null } | null => {
  switch (fact.type) {
    case 'MessageAccepted':
      return { status: 'accepted', reason: null }
    case 'MessageSent':
    case 'OpenMessageCarried':
      return { status: 'sent', reason: null }
    case 'MessageDelivered':
      return { status: 'delivered', reason: null }
    case 'MessageUndelivered':
      return { status: 'undelivered', reason: fact.reason }
    case 'MessageRejected':
      return { status: 'rejected', reason: fact.reason }
    case 'MessageExpired':
      return { status: 'expired', reason: fact.reason }
    case 'HandoverStarted':
    case 'HandoverRefused':
    case 'MessageSeen':
      return null
  }
}

/**
 * Folds one fact into the state of its message. It never fails. A fact that comes twice or is
 * outranked changes nothing, and a fact may come before `MessageAccepted`. The reader of the log
 * must leave out claims that a fence made void.
 */
export const evolve = (state: MessageState | null, fact: MessageFact): MessageState => {
  if (state === null) {
    return fact.type === 'MessageAccepted' ? accepted(fact) : evolve(unknownMessage(fact.messageId), fact)
  }
  switch (fact.type) {
    case 'MessageAccepted':
      return state.accepted
        ? state
        : { ...state, accepted: true, class: fact.class, parts: fact.parts, expiresAt: fact.expiresAt }
    case 'HandoverStarted': {
      const known = withParts(state, fact.parts)
      if (fact.attempt <= state.attempts) return known
      const claimed = { ...known, attempts: fact.attempt }
      return state.status === 'accepted'
        ? {
            ...claimed,
            unsubmitted: fact.unsubmitted ?? 0,
            stage: 'claimed',
            operator: fact.operator,
            retryAt: 0,
          }
        : claimed
    }
    case 'HandoverRefused': {
      const answered =
        state.stage === 'claimed' ? fact.attempt >= state.attempts : fact.attempt > state.attempts
      return answered && state.status === 'accepted'
        ? {
            ...state,
            stage: 'queued',
            attempts: fact.attempt,
            unsubmitted: fact.unsubmitted ?? 0,
            retryAt: fact.retryAt,
          }
        : state
    }
    case 'MessageSent':
      if (state.status === 'accepted') {
        return {
          ...state,
          status: 'sent',
          stage: 'awaitingReport',
          unsubmitted: 0,
          retryAt: 0,
          sentAt: fact.at,
          reportDeadline: fact.reportDeadline,
          operator: fact.operator,
          operatorIds: fact.operatorIds,
        }
      }
      return withIds(state, fact.operatorIds)
    case 'OpenMessageCarried': {
      const known = withParts(state, fact.parts)
      if (state.status === 'accepted') {
        return {
          ...known,
          class: fact.class,
          status: 'sent',
          stage: 'awaitingReport',
          attempts: Math.max(state.attempts, fact.attempts),
          unsubmitted: 0,
          retryAt: 0,
          sentAt: fact.sentAt,
          reportDeadline: fact.reportDeadline,
          operator: fact.operator,
          operatorIds: fact.operatorIds,
        }
      }
      return withIds(known, fact.operatorIds)
    }
    case 'MessageSeen':
      return state.seen ? state : { ...state, seen: true }
    case 'MessageDelivered':
    case 'MessageUndelivered':
    case 'MessageRejected':
    case 'MessageExpired': {
      const next = statusOf(fact)!
      return supersedes(next, state)
        ? { ...state, ...next, final: isFinal(next.status), stage: 'final' }
        : state
    }
  }
}
