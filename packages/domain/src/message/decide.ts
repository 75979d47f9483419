/** The decider of a message. Source: MSG-24 to MSG-34. */
import { Result } from 'effect'
import type { ClaimHandover, MessageCommand, RecordRejection, ReportOutcome } from './command.ts'
import {
  AcceptanceUnknown,
  AlreadySubmitted,
  LifetimeExpired,
  type MessageError,
  MessageUnknown,
  NotClaimed,
  RetryNotDue,
  OutcomeUnknown,
} from './errors.ts'
import {
  type HandoverRefused,
  type LogFact,
  type MessageExpired,
  type MessageSent,
  type OpenMessageCarried,
  type RejectedReason,
  UNDELIVERED_REASONS,
  type UndeliveredReason,
} from './fact.ts'
import { deadlineOf, type MessageState } from './state.ts'

export type Decision = Result.Result<ReadonlyArray<LogFact>, MessageError>

/** No facts: the command was repeated or came too late. */
const NOTHING: Decision = Result.succeed([])
const facts = (...list: ReadonlyArray<LogFact>): Decision => Result.succeed(list)

/**
 * Returns the facts that follow from a command, in the order in which they must be appended, or an
 * error.
 *
 * - **Claims.** `ClaimHandover` claims a queued message within its lifetime and not before its retry
 *   time. A claim without an answer can be repeated only at the same operator, and only if that
 *   operator deduplicates.
 * - **Answers.** `RecordSubmitted`, `RecordRefusal` and `RecordRejection` end a claim. `AssumeSent`
 *   ends a claim whose answer is lost. If the answer comes after `AssumeSent`, its ids are kept to
 *   match reports, and a rejection is final. A late refusal changes nothing, because a sent message
 *   never returns to the queue.
 * - **Reports** prove that the operator has the message. If the answer is missing, `MessageSent`
 *   precedes the outcome.
 * - **Read receipts** do not change the status. The first one after `delivered` gives
 *   `MessageSeen`. One that arrives before the delivery report proves the delivery and gives
 *   `MessageDelivered` and `MessageSeen`. Of the other final statuses it corrects only
 *   `dlr_timeout_local`.
 * - **Deadlines.** `PassDeadline` expires a queued message with `ttl_expired_before_submit` and a
 *   sent one with `dlr_timeout_local`. A claim that waits for its answer has no deadline here: the
 *   operator may have the message, so the hub must not say that a resend is safe.
 * - **Late reports** correct `dlr_timeout_local` once, to `delivered` or `undelivered`. No other
 *   final status changes.
 */
export const decide = (state: MessageState | null, command: MessageCommand): Decision => {
  if (state === null) return Result.fail(new MessageUnknown({ command: command.type }))
  switch (command.type) {
    case 'ClaimHandover':
      return claim(state, command)
    case 'RecordSubmitted':
      switch (state.stage) {
        case 'queued':
          return notClaimed(state, command)
        case 'claimed':
          return facts({
            type: 'MessageSent',
            messageId: state.id,
            at: command.at,
            operator: command.operator,
            operatorIds: command.operatorIds,
            reportDeadline: command.reportDeadline,
          })
        case 'awaitingReport': {
          // `MessageSent` had no ids. A re-appended fact adds them.
          if (state.operatorIds.length > 0 || command.operatorIds.length === 0) return NOTHING
          const reappended = reappendOpen({ ...state, operatorIds: command.operatorIds }, command.at)
          return reappended === null ? NOTHING : facts(reappended)
        }
        case 'final':
          return NOTHING
      }
    case 'RecordRefusal':
      switch (state.stage) {
        case 'queued':
          return notClaimed(state, command)
        case 'claimed':
          return facts({
            type: 'HandoverRefused',
            messageId: state.id,
            at: command.at,
            attempt: state.attempts,
            retryAt: command.retryAt,
            ...unsubmittedClaims(state, !command.submitted),
          })
        case 'awaitingReport':
        case 'final':
          return NOTHING
      }
    case 'RecordRejection':
      switch (state.stage) {
        case 'queued':
          return notClaimed(state, command)
        case 'claimed':
        case 'awaitingReport':
          return facts(rejectionFact(state, command))
        case 'final':
          return NOTHING
      }
    case 'AssumeSent':
      switch (state.stage) {
        case 'queued':
          return notClaimed(state, command)
        case 'claimed':
          return state.operator === null
            ? notClaimed(state, command)
            : facts(sentWithoutAnswer(state.id, state.operator, command.at, command.reportDeadline))
        case 'awaitingReport':
        case 'final':
          return NOTHING
      }
    case 'RecordReport':
      return report(state, command.type, command.outcome, command.at)
    case 'RecordReadReceipt': {
      if (state.status === 'delivered') {
        return state.seen ? NOTHING : facts({ type: 'MessageSeen', messageId: state.id, at: command.at })
      }
      return Result.map(report(state, command.type, { status: 'delivered' }, command.at), (proof) =>
        proof.length === 0 || state.seen
          ? proof
          : [...proof, { type: 'MessageSeen', messageId: state.id, at: command.at }],
      )
    }
    case 'PassDeadline': {
      const deadline = deadlineOf(state)
      if (deadline === null || command.at < deadline) return NOTHING
      return facts({
        type: 'MessageExpired',
        messageId: state.id,
        at: command.at,
        reason: state.stage === 'queued' ? 'ttl_expired_before_submit' : 'dlr_timeout_local',
      } satisfies MessageExpired)
    }
  }
}

/**
 * Returns the last refusal of a queued message again, so that it can be re-appended. It contains
 * the number of attempts, so recovery does not need the older claims and refusals. Returns `null`
 * if the message was never refused. The fact does not contain the operator that refused.
 */
export const reappendRefusal = (state: MessageState, at: number): HandoverRefused | null =>
  state.stage === 'queued' && state.attempts > 0
    ? {
        type: 'HandoverRefused',
        messageId: state.id,
        at,
        attempt: state.attempts,
        retryAt: state.retryAt,
        ...unsubmittedClaims(state, false),
      }
    : null

/**
 * Returns the complete knowledge about a message that waits for its report as one fact, so that
 * recovery does not need the older facts. Returns `null` in every other stage.
 */
export const reappendOpen = (state: MessageState, at: number): OpenMessageCarried | null =>
  state.stage === 'awaitingReport' &&
  state.operator !== null &&
  state.sentAt !== null &&
  state.reportDeadline !== null
    ? {
        type: 'OpenMessageCarried',
        messageId: state.id,
        at,
        operator: state.operator,
        operatorIds: state.operatorIds,
        class: state.class,
        attempts: state.attempts,
        sentAt: state.sentAt,
        reportDeadline: state.reportDeadline,
        // Operator ids tell it too.
        ...(state.operatorIds.length === 0 ? severalParts(state) : {}),
      }
    : null

const notClaimed = (state: MessageState, command: MessageCommand): Decision =>
  Result.fail(new NotClaimed({ messageId: state.id, command: command.type }))

/** The field of a claim or a refusal; absent for nearly all messages. */
const unsubmittedClaims = (state: MessageState, oneMore: boolean): { readonly unsubmitted?: number } => {
  const unsubmitted = state.unsubmitted + (oneMore ? 1 : 0)
  return unsubmitted === 0 ? {} : { unsubmitted }
}

/** The field of a claim or a re-append; absent for nearly all messages. */
const severalParts = ({ parts }: MessageState): { readonly parts?: number } =>
  parts !== null && parts > 1 ? { parts } : {}

const claim = (state: MessageState, command: ClaimHandover): Decision => {
  const messageId = state.id
  if (state.stage === 'awaitingReport' || state.stage === 'final') {
    return Result.fail(new AlreadySubmitted({ messageId }))
  }
  if (!state.accepted) return Result.fail(new AcceptanceUnknown({ messageId }))
  // Only the operator that may already have the message can recognize it.
  if (state.stage === 'claimed' && !(command.dedupes === true && command.operator === state.operator)) {
    return Result.fail(new OutcomeUnknown({ messageId }))
  }
  if (command.at >= state.expiresAt) {
    return Result.fail(new LifetimeExpired({ messageId, expiresAt: state.expiresAt }))
  }
  if (command.at < state.retryAt) return Result.fail(new RetryNotDue({ messageId, retryAt: state.retryAt }))
  return facts({
    type: 'HandoverStarted',
    messageId,
    at: command.at,
    epoch: command.epoch,
    attempt: state.attempts + 1,
    operator: command.operator,
    ...unsubmittedClaims(state, command.lastUnsubmitted === true),
    ...severalParts(state),
  })
}

/** The operator probably has the message. Its ids were in the lost answer. */
const sentWithoutAnswer = (
  messageId: string,
  operator: string,
  at: number,
  reportDeadline: number,
): MessageSent => ({
  type: 'MessageSent',
  messageId,
  at,
  operator,
  operatorIds: [],
  reportDeadline,
})

const undeliveredReasons: ReadonlySet<string> = new Set(UNDELIVERED_REASONS)
const isUndeliveredReason = (reason: RejectedReason | UndeliveredReason): reason is UndeliveredReason =>
  undeliveredReasons.has(reason)

const rejectionFact = (state: MessageState, { reason, at }: RecordRejection): LogFact =>
  isUndeliveredReason(reason)
    ? { type: 'MessageUndelivered', messageId: state.id, at, reason }
    : { type: 'MessageRejected', messageId: state.id, at, reason }

const outcomeFact = (messageId: string, at: number, outcome: ReportOutcome): LogFact => {
  switch (outcome.status) {
    case 'delivered':
      return { type: 'MessageDelivered', messageId, at }
    case 'undelivered':
      return { type: 'MessageUndelivered', messageId, at, reason: outcome.reason }
    case 'rejected':
      return { type: 'MessageRejected', messageId, at, reason: outcome.reason }
    case 'expired':
      return { type: 'MessageExpired', messageId, at, reason: outcome.reason }
  }
}

const report = (
  state: MessageState,
  command: MessageCommand['type'],
  outcome: ReportOutcome,
  at: number,
): Decision => {
  switch (state.stage) {
    case 'queued':
    case 'claimed':
      // Also after a refusal: an operator that reports on a message has it.
      return state.operator === null
        ? Result.fail(new NotClaimed({ messageId: state.id, command }))
        : facts(sentWithoutAnswer(state.id, state.operator, at, at), outcomeFact(state.id, at, outcome))
    case 'awaitingReport':
      return facts(outcomeFact(state.id, at, outcome))
    case 'final':
      return state.reason === 'dlr_timeout_local' &&
        (outcome.status === 'delivered' || outcome.status === 'undelivered')
        ? facts(outcomeFact(state.id, at, outcome))
        : NOTHING
  }
}
