/**
 * The steps of a handover: take, claim, submit, answer. Kafka must acknowledge the claim before the
 * shard submits the message. A handover ends without a submit if the payload cannot be decrypted or
 * the time to live has passed.
 */
import { decide, type LogFact, type MessageCommand } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import { Result } from 'effect'
import type { AfterAppend } from './effects.ts'
import type { Message, Preparation, PreparedSubmission } from './message.ts'
import { afterChange } from './message-lifecycle.ts'
import { addWithoutIds, registerOperatorIds } from './report-matching.ts'
import { count, record, type ShardState } from './state.ts'

/** The pause after a lost answer. It doubles with each one, up to the longest pause. */
const LOST_ANSWER_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
/** The longest retry time of a throttled message is 32 times the first: eight seconds over SMPP. */
const MOST_DOUBLINGS = 5

type Refused = Extract<SubmitOutcome, { readonly type: 'refused' }>

const END = { type: 'endHandover', notBefore: 0 } as const

/** Takes the next message of an account. Returns `null` without any. */
export const take = (state: ShardState, lane: number, operator: string, account: string): Message | null => {
  const message = state.queues.take(lane, operator, account)
  if (message !== null) state.handovers.begin(message)
  return message
}

export const onPrepared = (state: ShardState, message: Message, preparation: Preparation): void => {
  switch (preparation.type) {
    case 'prepared':
      return claim(state, message, preparation.submission)
    case 'retryLater':
      return end(state, message, state.now + preparation.afterMs)
    case 'damaged':
      return setAside(state, message)
    case 'destroyed':
      return discard(state, message)
  }
}

/** Appends the claim. The submit follows its acknowledgement. */
const claim = (state: ShardState, message: Message, submission: PreparedSubmission): void => {
  const { dedupes } = state.settings
  message.earlierClaimOpen = message.state.stage === 'claimed'
  const decision = decide(message.state, {
    type: 'ClaimHandover',
    epoch: state.epoch,
    operator: message.route,
    dedupes: dedupes(message.route),
    lastUnsubmitted: message.lastClaimUnsubmitted,
    at: state.now,
  })
  message.lastClaimUnsubmitted = false
  if (Result.isSuccess(decision)) {
    return recordOrGoOn(state, message, decision.success, { type: 'submit', submission })
  }
  const { failure } = decision
  switch (failure._tag) {
    case 'RetryNotDue':
      return end(state, message, failure.retryAt)
    case 'LifetimeExpired':
    case 'OutcomeUnknown':
      return discard(state, message)
    case 'AlreadySubmitted':
    case 'AcceptanceUnknown':
    case 'MessageUnknown':
    case 'NotClaimed':
      return end(state, message, 0)
  }
}

/** Appends facts. Without any, what would follow their acknowledgement follows at once. */
const recordOrGoOn = (
  state: ShardState,
  message: Message,
  facts: ReadonlyArray<LogFact>,
  next: AfterAppend | null,
): void => {
  if (facts.length === 0) afterAppend(state, message, next)
  else record(state, message, facts, next)
}

/** Appends the facts that the domain decides for a command; none if the domain rejects it. */
export const decideAndRecord = (
  state: ShardState,
  message: Message,
  command: MessageCommand,
  next: AfterAppend | null,
): void => {
  const decision = decide(message.state, command)
  recordOrGoOn(state, message, Result.isSuccess(decision) ? decision.success : [], next)
}

/** Kafka has acknowledged the last pending fact of a message. */
export const afterAppend = (state: ShardState, message: Message, next: AfterAppend | null): void => {
  if (next?.type === 'submit') onClaimAppended(state, message, next.submission)
  else if (next?.type === 'endHandover') end(state, message, next.notBefore)
  else if (next?.type === 'unpinReport') state.recovery.reports.unpin(next.offset)
  afterChange(state, message)
}

const onClaimAppended = (state: ShardState, message: Message, submission: PreparedSubmission): void => {
  state.handovers.claimAppended(message)
  // The log may meanwhile contain the end of the message, from another member's claim.
  if (message.state.stage !== 'claimed') end(state, message, 0)
  // The append may have taken longer than the rest of the time to live.
  else if (state.now >= message.state.expiresAt) {
    onAnswer(state, message, { type: 'notWritten' }, submission)
  } else state.effects.push({ type: 'submit', message, submission })
}

/** The message cannot be submitted (again): its time to live or its payload key is gone. */
const discard = (state: ShardState, message: Message): void => {
  const { expiresAt, stage } = message.state
  if (stage === 'claimed') return assumeSent(state, message, END)
  decideAndRecord(state, message, { type: 'PassDeadline', at: Math.max(state.now, expiresAt) }, END)
}

/**
 * The payload is damaged. The message keeps its state until its time to live ends, and stops no other
 * message meanwhile. If an earlier process could read it, it may have been submitted.
 */
const setAside = (state: ShardState, message: Message): void => {
  const { key: recipient, laneOffset: offset, laneRecord } = message
  if (message.state.stage === 'claimed') assumeSent(state, message, END)
  else {
    state.handovers.end(message)
    state.queues.setAside(message)
    afterChange(state, message)
  }
  if (laneRecord !== null) state.effects.push({ type: 'damaged', recipient, offset, accepted: laneRecord })
}

/** No answer to the claim will come: the message counts as sent. */
export const assumeSent = (state: ShardState, message: Message, next: AfterAppend | null): void => {
  count(state, 'assumed_sent')
  const reportDeadline = state.settings.reportDeadline(message.state, null, state.now)
  decideAndRecord(state, message, { type: 'AssumeSent', at: state.now, reportDeadline }, next)
}

export const onAnswer = (
  state: ShardState,
  message: Message,
  outcome: SubmitOutcome,
  submission: PreparedSubmission,
): void => {
  const at = state.now
  switch (outcome.type) {
    case 'accepted': {
      const { operatorIds } = outcome
      const operator = message.route
      const reportDeadline = state.settings.reportDeadline(message.state, submission, at)
      // Reports may overtake the append of this fact. They find the message, and wait.
      registerOperatorIds(state, message, operator, operatorIds)
      const command = { type: 'RecordSubmitted', operator, operatorIds, reportDeadline, at } as const
      return decideAndRecord(state, message, command, END)
    }
    case 'rejected':
      return decideAndRecord(state, message, { type: 'RecordRejection', reason: outcome.reason, at }, END)
    case 'refused':
    case 'notWritten': {
      const retryAt = outcome.type === 'refused' ? at + retryAfterMs(message, outcome) : at
      const submitted = outcome.type === 'refused' && outcome.submitted
      // The earlier claim may have succeeded. A refusal does not disprove that, so it is no fact.
      if (message.earlierClaimOpen) {
        message.lastClaimUnsubmitted = !submitted
        return end(state, message, Math.max(retryAt, at + LOST_ANSWER_PAUSE_MS))
      }
      const next = { type: 'endHandover', notBefore: retryAt } as const
      return decideAndRecord(state, message, { type: 'RecordRefusal', submitted, retryAt, at }, next)
    }
    case 'unknown': {
      count(state, 'outcome_unknown')
      if (!state.settings.dedupes(message.route)) return discard(state, message)
      const pause = Math.min(LOST_ANSWER_PAUSE_MS * 2 ** message.lostAnswers, LONGEST_PAUSE_MS)
      message.lostAnswers++
      // Until the answer comes again, a report of the recipient may be about this message too.
      addWithoutIds(state, message)
      return end(state, message, at + pause)
    }
  }
}

/** A message that is throttled again and again waits longer: its recipient may be the reason. */
const retryAfterMs = ({ state }: Message, { retryAfterMs: first, throttledParts = 0 }: Refused): number => {
  if (throttledParts === 0) return first
  const doublings = Math.min(state.attempts - 1, MOST_DOUBLINGS)
  return first * 2 ** Math.max(0, doublings)
}

/** Ends the handover. A message that is still open is available again from `notBefore` on. */
const end = (state: ShardState, message: Message, notBefore: number): void => {
  if (!message.inHandover) return
  state.handovers.end(message)
  if (message.state.final || message.state.stage === 'awaitingReport') {
    state.queues.remove(message)
  } else {
    message.blockedUntil = notBefore
    state.queues.requeue(message, notBefore > state.now)
    if (notBefore <= state.now) state.queues.unblock(message)
  }
  afterChange(state, message)
}
