/**
 * How facts change a message in memory, from its first fact until the shard forgets it. A shard folds
 * its own facts when Kafka acknowledges them, and all other facts when it reads them.
 */
import { evolve, type LogFact } from '@hub/domain'
import { COMPLETE_MS } from './limits.ts'
import type { Message } from './message.ts'
import {
  addWithoutIds,
  applyWaiting,
  forgetReports,
  registerOperatorIds,
  removeWithoutIds,
} from './report-matching.ts'
import type { ShardState } from './state.ts'

/** Applies a fact that is in the log at `offset`. A repetition changes nothing. */
export const fold = (state: ShardState, message: Message, fact: LogFact, offset: number): void => {
  const before = message.state
  const after = evolve(before, fact)
  message.state = after
  state.recovery.advance(message, fact, offset)
  if (fact.type === 'HandoverStarted') message.claimedAt ??= fact.at
  else if (fact.type === 'HandoverRefused') message.claimedAt = null
  if (fact.type === 'MessageSent' || fact.type === 'OpenMessageCarried') {
    registerOperatorIds(state, message, fact.operator, fact.operatorIds)
    // A re-append leaves out the parts with a report.
    if (
      fact.type === 'OpenMessageCarried' &&
      message.recoveryOffset === offset &&
      after.operatorIds.length > 1
    ) {
      message.awaitedParts = new Set(fact.operatorIds)
    }
  }
  if (after.final) {
    if (!before.final || after.status !== before.status) finish(state, message)
  } else if (after.stage === 'awaitingReport') {
    state.queues.remove(message)
    if (after.operatorIds.length === 0) addWithoutIds(state, message)
    else removeWithoutIds(state, message)
  } else if (after.stage === 'queued') removeWithoutIds(state, message)
}

/** After a change: sets the timer of a message, and applies the reports that had to wait. */
export const afterChange = (state: ShardState, message: Message): void => {
  if (message.inHandover || message.pendingAppends > 0) return
  if (message.laneRecord !== null && !message.lookupPending && message.blockedUntil <= state.now) {
    state.queues.unblock(message)
  }
  setTimer(state, message)
  applyWaiting(state, message)
}

export const setTimer = ({ timers }: ShardState, message: Message): void => {
  const { blockedUntil, inHandover, lookupPending, pendingAppends, state } = message
  if (inHandover || pendingAppends > 0 || lookupPending || state.final) {
    timers.clear(message)
    return
  }
  const unblockAt = blockedUntil > 0 ? blockedUntil : Number.POSITIVE_INFINITY
  if (state.stage === 'queued') timers.set(message, Math.min(unblockAt, state.expiresAt))
  else if (state.stage === 'claimed') timers.set(message, unblockAt)
  else timers.set(message, state.reportDeadline ?? Number.POSITIVE_INFINITY)
}

export const add = ({ messages, settings: { memoryBudget } }: ShardState, message: Message): void => {
  messages.set(message.id, message)
  if (memoryBudget !== undefined) memoryBudget.used++
}

export const finish = (state: ShardState, message: Message): void => {
  state.queues.remove(message)
  state.timers.clear(message)
  // A report may still be about a message that expired without one. The report of its last part may
  // correct it, and a new owner then needs all reports.
  if (message.state.reason !== 'dlr_timeout_local') {
    removeWithoutIds(state, message)
    state.recovery.unpinPartReports(message)
  }
  if (state.lookups.delete(message)) message.lookupPending = false
  message.finishedAt = state.isOpen ? state.now : message.recoveryFactAt
  state.finished.delete(message)
  state.finished.add(message)
}

export const forget = (state: ShardState, message: Message): void => {
  const { memoryBudget } = state.settings
  if (state.messages.delete(message.id) && memoryBudget !== undefined) memoryBudget.used--
  state.finished.delete(message)
  state.timers.clear(message)
  state.recovery.unpin(message)
  forgetReports(state, message)
}

/** Keeps only the id of a final message. Later reports about it need a lookup. */
export const keepIdOnly = (state: ShardState, message: Message): void => {
  const { finishedAt, id, recoveryOffset } = message
  forget(state, message)
  state.recovery.remember(id, recoveryOffset, finishedAt)
}

/** During recovery: there may be as many old final messages as open ones. */
export const keepIdOnlyIfOld = (state: ShardState, message: Message): void => {
  const { finishedAt, state: known } = message
  if (!known.final || known.reason === 'dlr_timeout_local') return
  if (state.now - finishedAt >= COMPLETE_MS) keepIdOnly(state, message)
}
