/**
 * The records of the lanes: which ones a shard keeps, and which messages the read model must be asked
 * about first.
 *
 * A lane offset stays pinned while the payload may be needed. The mark of a lane may be hours behind,
 * so a restart looks old records up before a handover (docs/decisions/shards.md#backlogs).
 */
import { evolve, type MessageAccepted } from '@hub/domain'
import type { AcceptedHead } from '@hub/kafka'
import type { LaneRecordRead } from './inputs.ts'
import { OLD_AFTER_MS } from './limits.ts'
import { add, afterChange, forget, setTimer } from './message-lifecycle.ts'
import { EMPTY, Message } from './message.ts'
import { matchReport } from './report-matching.ts'
import { count, type ShardState } from './state.ts'

/** What the shard does with a lane record. It keeps a record only with the input `accepted`. */
export type LaneVerdict = 'keep' | 'skip' | 'duplicate'

/** Decides by the beginning of a record. Call it once for each read, in order. */
export const judge = (
  { messages, queues, recovery, settings }: ShardState,
  lane: number,
  offset: number,
  { account, messageId, mode }: AcceptedHead,
): LaneVerdict => {
  const known = messages.get(messageId)
  const operator = known?.state.operator ?? settings.operators[mode]
  const isNew = queues.cursor(lane).isNew(offset)
  const hasRoom = queues.accepts(lane, offset, operator, account)
  if (known?.state.accepted ?? recovery.remembered.has(messageId)) {
    // The shard reads the lane again for other accounts.
    return isNew && known?.laneOffset !== offset ? 'duplicate' : 'skip'
  }
  // The shard keeps a message of the log even without room: it may be claimed, and there are few.
  return known !== undefined || hasRoom ? 'keep' : 'skip'
}

export const onAccepted = (
  state: ShardState,
  { accepted, appendedAt, lane, offset }: LaneRecordRead,
): void => {
  const known = state.messages.get(accepted.messageId)
  const route = known?.state.operator ?? state.settings.operators[accepted.mode]
  const toGiveUp = () => state.queues.toGiveUp(lane, route, accepted.account)
  for (let other = toGiveUp(); other !== null; other = toGiveUp()) giveUp(state, other)
  const after = evolve(known?.state ?? null, accepted)
  const message = known ?? new Message(accepted.messageId, accepted.recipient, after)
  if (known === undefined) add(state, message)
  message.state = after
  message.lane = lane
  message.laneOffset = offset
  message.route = route
  enqueue(state, message, appendedAt, accepted)
}

/** Forgets a message of which nothing but its lane record exists. It is read again later. */
const giveUp = (state: ShardState, message: Message): void => {
  state.queues.giveUp(message)
  state.lookups.delete(message)
  forget(state, message)
}

const enqueue = (
  state: ShardState,
  message: Message,
  appendedAt: number,
  accepted: MessageAccepted,
): void => {
  const { retryAt, stage } = message.state
  if (stage !== 'queued' && stage !== 'claimed') return
  message.laneRecord = accepted
  message.blockedUntil = retryAt
  // An old record may belong to a message that was sent, ended, and was forgotten.
  const isOld =
    accepted.republished || appendedAt - accepted.at > OLD_AFTER_MS || state.now - accepted.at > OLD_AFTER_MS
  if (stage === 'queued' && isOld) {
    message.lookupPending = true
    message.lookupAfter = { lane: message.laneOffset, log: state.logPosition }
    state.lookups.add(message)
  }
  state.queues.push(message, message.lookupPending || retryAt > state.now || message.pendingAppends > 0)
  setTimer(state, message)
}

export const onMessageLookedUp = (state: ShardState, message: Message, sentOrFinal: boolean): void => {
  if (!state.lookups.delete(message)) return
  message.lookupPending = false
  message.lookupAfter = null
  // If the shard has read newer facts of an open message meanwhile, those count.
  if (!sentOrFinal || message.state.stage !== 'queued') return afterChange(state, message)
  count(state, 'known_dropped')
  const reports = message.waitingReports
  message.waitingReports = EMPTY
  state.queues.remove(message)
  forget(state, message)
  // They belong to the message that the read model knows.
  for (const report of reports) matchReport(state, report)
}
