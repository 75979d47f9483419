/**
 * What becomes of a parked report after the read model was asked about it: it corrects a message that
 * the shard has forgotten, or is matched by its recipient at last, or is dropped.
 */
import { decide, evolve } from '@hub/domain'
import { Result } from 'effect'
import { CLOCK_SKEW_MS } from './limits.ts'
import { add, afterChange } from './message-lifecycle.ts'
import { type ReadModelMessage, readModelState, Message, type DeliveryReport } from './message.ts'
import type { ParkedReport } from './parked-reports.ts'
import { applyReport, dropReport, matchReport, registerOperatorIds } from './report-matching.ts'
import { count, record, type ShardState } from './state.ts'

/** After this time without a match, a report may belong to a message whose answer was lost. */
const MATCH_BY_RECIPIENT_MS = 5000
/** After this time the shard drops a report that nobody knows. */
const PARK_MS = 30_000

export const onReportLookedUp = (
  state: ShardState,
  { report }: ParkedReport,
  known: ReadModelMessage | null,
): void => {
  const parked = state.parked.get(report.offset)
  if (parked === undefined) return
  parked.unknown = known === null
  if (known !== null) {
    if (isCorrectable(known, report)) return correct(state, parked, known)
    if (known.status !== 'accepted' && known.status !== 'sent') {
      state.parked.remove(parked)
      dropReport(state, report, 'report_duplicate')
      return
    }
  } else if (matchByRecipient(state, parked)) return
  // While a handover is in progress, its answer may still bring the id of the report.
  if (state.now - parked.since >= PARK_MS && !state.queues.isTaken(report.recipient)) {
    state.parked.remove(parked)
    dropReport(state, report, 'report_unmatched')
  }
}

const isCorrectable = (known: ReadModelMessage, { outcome }: DeliveryReport): boolean =>
  known.reason === 'dlr_timeout_local' ||
  (known.status === 'delivered' && outcome.status === 'seen' && !known.seen)

/** The report changes a message that the shard has forgotten, or of which it knows no ids. */
const correct = (state: ShardState, parked: ParkedReport, known: ReadModelMessage): void => {
  const { operator, operatorIds } = known
  state.parked.remove(parked)
  const present = state.messages.get(known.id)
  const message = present ?? addKnown(state, known)
  // The shard may have read only the final fact of the message.
  if (message.state.operatorIds.length === 0) message.state = { ...message.state, operator, operatorIds }
  registerOperatorIds(state, message, operator, operatorIds)
  if (present === undefined) afterChange(state, message)
  matchReport(state, parked.report)
  // Reports of its other parts were parked under their own ids.
  if (present !== undefined) afterChange(state, message)
}

/** Adds a final message from the read model, which the shard has forgotten. */
const addKnown = (state: ShardState, known: ReadModelMessage): Message => {
  const message = new Message(known.id, known.recipient, readModelState(known, state.now))
  message.finishedAt = state.now
  add(state, message)
  state.finished.add(message)
  return message
}

const matchByRecipient = (state: ShardState, parked: ParkedReport): boolean => {
  if (state.queues.isTaken(parked.report.recipient)) return false
  const only = onlyCandidate(state, parked)
  if (only === null || only.state.final || only.inHandover || only.pendingAppends > 0) return false
  const others = reportsOfOtherParts(state, only, parked.report)
  if (others === null) return false
  for (const one of [parked, ...others]) state.parked.remove(one)
  count(state, 'report_matched_by_recipient')
  const otherReports = others.map(({ report }) => report)
  applyWithIds(state, only, parked.report, otherReports)
  return true
}

/** The only message that a report can be about, by its recipient. `null`: none, or not known yet. */
const onlyCandidate = ({ now, withoutIds }: ShardState, parked: ParkedReport): Message | null => {
  const { operator, receivedAt, recipient } = parked.report
  if (!parked.unknown || now - parked.since < MATCH_BY_RECIPIENT_MS) return null
  const candidates = [...(withoutIds.get(recipient) ?? [])].filter(
    ({ claimedAt, state }) =>
      state.operator === operator &&
      // No report is about a message that was claimed only afterwards.
      (claimedAt === null || claimedAt <= receivedAt + CLOCK_SKEW_MS),
  )
  // With two candidates, the report cannot be assigned. Both wait for their deadline, and the second
  // one must not get the report of the first one when that has expired.
  parked.isAmbiguous ||= candidates.length > 1
  return parked.isAmbiguous ? null : (candidates[0] ?? null)
}

/**
 * The reports of the other parts. `null`: some are missing. The operator may have only some parts of a message
 * whose answers were lost, so the report of one part must not count for all. An operator that knows our
 * references has one id for all parts.
 */
const reportsOfOtherParts = (
  state: ShardState,
  message: Message,
  report: DeliveryReport,
): ReadonlyArray<ParkedReport> | null => {
  const { parts } = message.state
  const { operator, operatorId, outcome, recipient } = report
  if (parts === null || parts === 1 || outcome.status !== 'delivered') return []
  if (state.settings.dedupes(operator)) return []
  const others = state.parked
    .delivered(operator, recipient)
    .filter((other) => other.report.operatorId !== operatorId && onlyCandidate(state, other) === message)
  return others.length === parts - 1 ? others : null
}

/**
 * Also records the operator's ids. When the operator repeats a report, the hub may have forgotten the
 * message, and must not match the report to another message of the recipient.
 */
const applyWithIds = (
  state: ShardState,
  message: Message,
  report: DeliveryReport,
  others: ReadonlyArray<DeliveryReport>,
): void => {
  const operatorIds = [report, ...others].map(({ operatorId }) => operatorId)
  const { operator } = report
  const decision = decide(message.state, {
    type: 'RecordSubmitted',
    operator,
    operatorIds,
    // The outcome follows at once.
    reportDeadline: state.now,
    at: state.now,
  })
  const facts = Result.isSuccess(decision) ? decision.success : []
  if (facts.length > 0) record(state, message, facts, null)
  // They stay pinned until the log has the outcome.
  for (const { offset } of others) state.recovery.keepPartReport(message, offset)
  applyReport(state, message, report, facts.reduce(evolve, message.state))
  // Takes its repetitions that are parked.
  registerOperatorIds(state, message, operator, operatorIds)
  // All parts are reported.
  message.awaitedParts = null
  afterChange(state, message)
}
