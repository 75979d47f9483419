/**
 * What a command makes happen. Pure: clock, randomness and the operator's answers come in as arguments.
 * Source: specification, States and transitions; contract, Message.
 */
import { Result } from 'effect'
import type { HandOver, MessageCommand, RecordRejection, ReportOutcome } from './command.ts'
import {
  AcceptanceUnknown,
  AlreadyHandedOver,
  LifetimeExpired,
  type MessageError,
  MessageUnknown,
  NotHandedOver,
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

/** Nothing new: the command came twice, or too late to matter. */
const NOTHING: Decision = Result.succeed([])
const facts = (...list: ReadonlyArray<LogFact>): Decision => Result.succeed(list)

/**
 * The facts that follow from a command, to be written to the log in the order given, or why there can be none.
 *
 * - **Claims.** `HandOver` takes a queued message whose lifetime and retry time allow it. After a claim without an
 *   answer it is granted again only where the operator dedupes and is the same one.
 * - **Answers.** `RecordSubmitted`, `RecordRefusal` and `RecordRejection` end a claim. `AssumeSent` ends one whose
 *   answer is lost. An answer that comes after `AssumeSent` still counts where it can: ids are kept for matching
 *   reports, a rejection is final; a refusal is not, because `sent` never goes back.
 * - **Reports** prove the hand-over: where the answer is missing, `MessageSent` comes with them, before the outcome.
 * - **Read receipts** are no status of their own. One after `delivered` gives `MessageSeen`, once. One that overtakes its
 *   delivery report proves the delivery, so it gives `MessageDelivered` and `MessageSeen`: `message.seen` is only ever
 *   told of a delivered message. It corrects `dlr_timeout_local` as a late report does, and no other final status.
 * - **Deadlines.** `PassDeadline` expires a queued message with `ttl_expired_before_submit` and one handed over with
 *   `dlr_timeout_local`. A claim that awaits its answer has no deadline here: whether it was handed over is
 *   not known, and "a resend is safe" must not be said.
 * - **Late reports** correct `dlr_timeout_local`, once, to `delivered` or `undelivered`. No other final status changes.
 */
export const decide = (state: MessageState | null, command: MessageCommand): Decision => {
  if (state === null) return Result.fail(new MessageUnknown({ command: command.type }))
  switch (command.type) {
    case 'HandOver':
      return handOver(state, command)
    case 'RecordSubmitted':
      switch (state.stage) {
        case 'queued':
          return notHandedOver(state, command)
        case 'handingOver':
          return facts({
            type: 'MessageSent',
            messageId: state.id,
            at: command.at,
            operator: command.operator,
            operatorIds: command.operatorIds,
            reportDeadline: command.reportDeadline,
          })
        case 'awaitingReport': {
          // `MessageSent` was said without ids; they are told the way open messages are carried forward.
          if (state.operatorIds.length > 0 || command.operatorIds.length === 0) return NOTHING
          const carried = reappendOpen({ ...state, operatorIds: command.operatorIds }, command.at)
          return carried === null ? NOTHING : facts(carried)
        }
        case 'final':
          return NOTHING
      }
    case 'RecordRefusal':
      switch (state.stage) {
        case 'queued':
          return notHandedOver(state, command)
        case 'handingOver':
          return facts({
            type: 'HandoverRefused',
            messageId: state.id,
            at: command.at,
            attempt: state.attempts,
            retryAt: command.retryAt,
          })
        case 'awaitingReport':
        case 'final':
          return NOTHING
      }
    case 'RecordRejection':
      switch (state.stage) {
        case 'queued':
          return notHandedOver(state, command)
        case 'handingOver':
        case 'awaitingReport':
          return facts(refused(state, command))
        case 'final':
          return NOTHING
      }
    case 'AssumeSent':
      switch (state.stage) {
        case 'queued':
          return notHandedOver(state, command)
        case 'handingOver':
          return state.operator === null
            ? notHandedOver(state, command)
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
 * The refusal of a message that still has to be handed over, once more: enough for the next attempt to have its number, so that the
 * claim and the refusal before it are not needed any more. `null` when it was never refused. The name of the operator
 * that refused is not in it.
 */
export const reappendRefusal = (state: MessageState, at: number): HandoverRefused | null =>
  state.stage === 'queued' && state.attempts > 0
    ? { type: 'HandoverRefused', messageId: state.id, at, attempt: state.attempts, retryAt: state.retryAt }
    : null

/**
 * What is known of a message that awaits its report, as a fact that stands for the older ones; `null` when there is
 * nothing to carry (queued, claimed without an answer, or final).
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
      }
    : null

const notHandedOver = (state: MessageState, command: MessageCommand): Decision =>
  Result.fail(new NotHandedOver({ messageId: state.id, command: command.type }))

const handOver = (state: MessageState, command: HandOver): Decision => {
  const messageId = state.id
  if (state.stage === 'awaitingReport' || state.stage === 'final') {
    return Result.fail(new AlreadyHandedOver({ messageId }))
  }
  if (!state.accepted) return Result.fail(new AcceptanceUnknown({ messageId }))
  // The operator that may already have it is the only one that can recognise it.
  if (state.stage === 'handingOver' && !(command.dedupes === true && command.operator === state.operator)) {
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
  })
}

/** Handed over as far as anybody can tell; the operator's ids were in the answer that was lost. */
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

const refused = (state: MessageState, { reason, at }: RecordRejection): LogFact =>
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
    case 'handingOver':
      // A refused claim counts: an operator that reports on a message has it, whatever it answered.
      return state.operator === null
        ? Result.fail(new NotHandedOver({ messageId: state.id, command }))
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
