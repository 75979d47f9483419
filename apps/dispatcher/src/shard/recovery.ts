/**
 * What a shard restores from the log, and what it re-appends there, so that the next owner need not
 * read far. From the acknowledged `MessageSent` or final fact on, the log alone restores a message
 * (`recovery-offsets.ts`).
 */
import type { OpenedShard } from '@hub/actor'
import { epochOf, evolve, reappendOpen, reappendRefusal } from '@hub/domain'
import type { OpenSubmission } from '@hub/operator'
import { afterAppend, assumeSent } from './claims.ts'
import type { Append, ReAppend } from './effects.ts'
import type { FactRead } from './inputs.ts'
import {
  COMPLETE_MS,
  LONGEST_LIFETIME_MS,
  RE_APPEND_BEHIND,
  RE_APPENDED_IN_ONE,
  REMEMBERED_MS,
} from './limits.ts'
import {
  add,
  afterChange,
  finish,
  fold,
  forget,
  keepIdOnly,
  keepIdOnlyIfOld,
  setTimer,
} from './message-lifecycle.ts'
import { Message } from './message.ts'
import { addWithoutIds } from './report-matching.ts'
import { count, record, type ShardState } from './state.ts'

export const onFact = (state: ShardState, { fact, fence, offset, recipient }: FactRead): void => {
  const epoch = epochOf(fact)
  if (epoch !== null && fence.isVoid(epoch)) return count(state, 'void_claim')
  const known = state.messages.get(fact.messageId)
  if (known !== undefined) {
    fold(state, known, fact, offset)
    if (state.isOpen) afterChange(state, known)
    else keepIdOnlyIfOld(state, known)
    return
  }
  // Recovery has found all messages of the shard. Late facts about forgotten ones add nothing.
  if (state.isOpen || state.recovery.remembered.has(fact.messageId)) return
  const message = new Message(fact.messageId, recipient, evolve(null, fact))
  if (message.state.final && fact.at < state.now - LONGEST_LIFETIME_MS) return
  add(state, message)
  fold(state, message, fact, offset)
  if (message.state.final) finish(state, message)
  keepIdOnlyIfOld(state, message)
}

export const onOpened = (
  state: ShardState,
  { epoch, laneEnds, logPosition }: Omit<OpenedShard, 'now'>,
): void => {
  state.epoch = epoch
  // Fences are no facts: behind the mark of an idle shard there is nothing else.
  state.logPosition = logPosition
  state.isOpen = true
  state.laneEnds = laneEnds
  const resumed = new Map<string, Array<OpenSubmission>>()
  for (const message of state.messages.values()) {
    const { state: known } = message
    const mayBeCorrected = known.reason === 'dlr_timeout_local'
    if (
      known.operator !== null &&
      known.sentAt !== null &&
      (mayBeCorrected || known.stage === 'awaitingReport')
    ) {
      const list = resumed.get(known.operator) ?? []
      list.push({
        reference: message.id,
        recipient: message.key,
        operatorIds: message.awaitedParts === null ? known.operatorIds : [...message.awaitedParts],
        sentAt: known.sentAt,
      })
      resumed.set(known.operator, list)
    }
    // A restart does not make a final message younger.
    if (known.final) message.finishedAt = Math.min(message.finishedAt, state.now)
    else setTimer(state, message)
    if (known.stage === 'claimed') {
      // The operator may have the message, but its operator ids are unknown. While the outcome is
      // unknown, a report cannot be matched by recipient alone.
      addWithoutIds(state, message)
      count(state, 'outcome_unknown')
    }
    if (!known.final && known.stage !== 'awaitingReport') state.awaitsLaneRecords = true
  }
  for (const [operator, open] of resumed) state.effects.push({ type: 'resume', operator, open })
}

export const onAppended = (state: ShardState, effect: Append | ReAppend, offset: number): void => {
  if (offset >= state.logPosition) state.ownOffsets.add(offset)
  if (effect.type === 'append') {
    const { fact, message, next } = effect
    message.pendingAppends--
    fold(state, message, fact, offset)
    if (message.pendingAppends === 0) afterAppend(state, message, next)
    return
  }
  // There is nothing to fold: the facts repeat the states of the messages.
  for (const { fact, message } of effect.open) {
    message.pendingAppends--
    state.recovery.advance(message, fact, offset)
    if (message.pendingAppends > 0) continue
    state.recovery.unpinPartReports(message)
    afterChange(state, message)
  }
}

/** The marks were committed: forgets old final messages, and re-appends old open ones. */
export const onCommitted = (state: ShardState, lanes: ReadonlyArray<number>, logPosition: number): void => {
  state.recovery.forgetRemembered(state.now)
  for (const message of state.finished) {
    if (state.now - message.finishedAt < COMPLETE_MS) break
    // Its own facts that are not read back yet, or an answer to come, would look like news.
    if (logPosition <= message.recoveryOffset || message.pendingAppends > 0 || message.inHandover) continue
    if (state.now - message.finishedAt >= REMEMBERED_MS) forget(state, message)
    else if (message.state.reason !== 'dlr_timeout_local') keepIdOnly(state, message)
  }
  if (state.awaitsLaneRecords && state.queues.areRead(lanes, state.laneEnds)) endWithoutRecords(state)
  reAppend(state, logPosition)
}

/**
 * All lanes are read, and some lane records are missing: their retention has passed. A claimed
 * message counts as sent. A refused one can never be submitted.
 */
const endWithoutRecords = (state: ShardState): void => {
  state.awaitsLaneRecords = false
  for (const message of state.messages.values()) {
    const { accepted, stage } = message.state
    if (accepted || message.pendingAppends > 0) continue
    if (stage === 'claimed') assumeSent(state, message, null)
    else if (stage === 'queued') {
      count(state, 'record_lost')
      forget(state, message)
    }
  }
}

const reAppend = (state: ShardState, logPosition: number): void => {
  const behind = state.limits.reAppendBehind ?? RE_APPEND_BEHIND
  const due = state.recovery.dueForReAppend(logPosition, state.now, behind)
  if (due.size === 0) return
  let open: Array<ReAppend['open'][number]> = []
  const emit = () => {
    if (open.length > 0) state.effects.push({ type: 'reAppend', at: state.now, open })
    open = []
  }
  for (const message of due) {
    const fact = reappendOpen(message.state, state.now)
    if (fact === null) {
      const refused = reappendRefusal(message.state, state.now)
      if (refused !== null) record(state, message, [refused], null)
      continue
    }
    const { awaitedParts } = message
    message.pendingAppends++
    open.push({ message, fact: awaitedParts === null ? fact : { ...fact, operatorIds: [...awaitedParts] } })
    if (open.length === RE_APPENDED_IN_ONE) emit()
  }
  emit()
  count(state, 'carried', due.size)
}
