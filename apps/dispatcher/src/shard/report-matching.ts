/**
 * Finds the message of each delivery report by the operator's id, then by our reference, and decides
 * what the report changes. A report without a match is parked (`report-look-up.ts`).
 */
import { decide } from '@hub/domain'
import { Result } from 'effect'
import type { SpecialCase } from './effects.ts'
import { type Message, EMPTY, operatorKey, type DeliveryReport } from './message.ts'
import { count, record, type ShardState } from './state.ts'

/** Learns the operator's ids of a message. Reports parked under these ids then wait for it. */
export const registerOperatorIds = (
  state: ShardState,
  message: Message,
  operator: string,
  operatorIds: ReadonlyArray<string>,
): void => {
  if (operatorIds.length > 1) message.awaitedParts ??= new Set(operatorIds)
  for (const id of operatorIds) {
    const key = operatorKey(operator, id, message.key)
    state.byOperatorId.set(key, message)
    const parked = state.parked.take(key)
    if (parked.length > 0) message.waitingReports = [...message.waitingReports, ...parked]
  }
}

export const addWithoutIds = ({ withoutIds }: ShardState, message: Message): void => {
  withoutIds.set(message.key, (withoutIds.get(message.key) ?? new Set()).add(message))
}

export const removeWithoutIds = ({ withoutIds }: ShardState, message: Message): void => {
  const set = withoutIds.get(message.key)
  if (set === undefined) return
  set.delete(message)
  if (set.size === 0) withoutIds.delete(message.key)
}

/** The shard forgets the message, and its waiting reports are duplicates. */
export const forgetReports = (state: ShardState, message: Message): void => {
  removeWithoutIds(state, message)
  state.recovery.unpinPartReports(message)
  for (const report of message.waitingReports) dropReport(state, report, 'report_duplicate')
  const { operator, operatorIds } = message.state
  if (operator === null) return
  for (const id of operatorIds) {
    const key = operatorKey(operator, id, message.key)
    if (state.byOperatorId.get(key) === message) state.byOperatorId.delete(key)
  }
}

/** A report whose offset is pinned. */
export const matchReport = (state: ShardState, report: DeliveryReport): void => {
  const named = report.reference === null ? undefined : state.messages.get(report.reference)
  const message =
    state.byOperatorId.get(operatorKey(report.operator, report.operatorId, report.recipient)) ??
    (named?.key === report.recipient ? named : undefined)
  if (message === undefined || lacksIds(message)) park(state, report)
  else if (mustWait(state, message)) message.waitingReports = [...message.waitingReports, report]
  else applyReport(state, message, report)
}

/** Applies the waiting reports of a message, as far as nothing else is in progress. */
export const applyWaiting = (state: ShardState, message: Message): void => {
  while (message.waitingReports.length > 0 && !mustWait(state, message)) {
    const [first, ...rest] = message.waitingReports
    message.waitingReports = rest.length === 0 ? EMPTY : rest
    // Another member may have recorded the end of the message without the ids of its parts.
    if (lacksIds(message)) park(state, first!)
    else applyReport(state, message, first!)
  }
}

/**
 * Reports wait while a handover, an append or a lookup is in progress. After a lost answer they
 * wait for the repeated one: without the ids of all parts, the report of one part would count for
 * all.
 */
const mustWait = ({ settings }: ShardState, message: Message): boolean => {
  if (message.inHandover || message.pendingAppends > 0 || message.lookupPending) return true
  const { operator, stage } = message.state
  return (
    stage === 'claimed' && operator !== null && settings.dedupes(operator) && message.laneRecord?.parts !== 1
  )
}

/** `known`: the state of the message with facts that are not acknowledged yet. */
export const applyReport = (
  state: ShardState,
  message: Message,
  report: DeliveryReport,
  known = message.state,
): void => {
  const { outcome } = report
  const { operatorIds } = known
  // The part was reported before the message was re-appended without it.
  if (outcome.status === 'delivered' && operatorIds.length > 0 && !operatorIds.includes(report.operatorId)) {
    return dropReport(state, report, 'report_duplicate')
  }
  if (outcome.status === 'delivered' && message.awaitedParts !== null) {
    if (!message.awaitedParts.delete(report.operatorId)) return dropReport(state, report, 'report_duplicate')
    if (message.awaitedParts.size > 0) return state.recovery.keepPartReport(message, report.offset)
  }
  const decision = decide(
    known,
    outcome.status === 'seen'
      ? { type: 'RecordReadReceipt', at: state.now }
      : { type: 'RecordReport', outcome, at: state.now },
  )
  if (Result.isFailure(decision)) return dropReport(state, report, 'report_impossible')
  if (decision.success.length === 0) return dropReport(state, report, 'report_duplicate')
  record(state, message, decision.success, { type: 'unpinReport', offset: report.offset })
}

export const dropReport = (state: ShardState, report: DeliveryReport, reason: SpecialCase): void => {
  count(state, reason)
  state.recovery.reports.unpin(report.offset)
}

const park = (state: ShardState, report: DeliveryReport): void => {
  const evicted = state.parked.add(report, state.now, state.logPosition)
  if (evicted !== null) dropReport(state, evicted, 'report_unmatched')
}

/**
 * Whether the ids of all parts are needed first: otherwise the report of one part would count for all.
 * A late report may correct an expired message, and only the read model knows its number of parts. A
 * message that waits for its submit was submitted by another member, whose fact has the ids.
 */
const lacksIds = ({ laneRecord, state }: Message): boolean =>
  state.operatorIds.length === 0 &&
  (state.reason === 'dlr_timeout_local' || (state.stage === 'queued' && laneRecord?.parts !== 1))
