/**
 * The messages of one shard: a pure state machine. `handle` changes the state by one input, and
 * returns the effects. The domain (`decide`, `evolve`) decides what facts mean; the functions beside
 * this module decide when to ask the domain.
 */
import type { LowestPinned, PinnedOffsets } from '@hub/actor'
import type { AcceptedHead } from '@hub/kafka'
import { decideAndRecord, onAnswer, onPrepared, take } from './claims.ts'
import type { ShardEffects, ShardSettings } from './effects.ts'
import type { Handovers } from './handovers.ts'
import type { ShardInput } from './inputs.ts'
import { judge, type LaneVerdict, onAccepted, onMessageLookedUp } from './lane-records.ts'
import { MESSAGE_BYTES, REMEMBERED_BYTES, ROOM_SHARE, SERVICE_SHARE } from './limits.ts'
import { setTimer } from './message-lifecycle.ts'
import type { Message } from './message.ts'
import type { OperatorQueues } from './operator-queues.ts'
import type { ParkedReports } from './parked-reports.ts'
import { onAppended, onCommitted, onFact, onOpened } from './recovery.ts'
import { onReportLookedUp } from './report-look-up.ts'
import { matchReport } from './report-matching.ts'
import { ShardState } from './state.ts'

export class MessageShard {
  readonly #state: ShardState
  readonly handovers: Pick<Handovers, 'count' | 'countAt' | 'unacknowledged'>
  readonly queues: Pick<OperatorQueues, 'count' | 'cursor' | 'peek' | 'pinUnreadable' | 'shares' | 'unpin'>
  readonly parkedReports: Pick<ParkedReports, 'due' | 'hasRoom' | 'isFull' | 'size'>
  readonly pinnedReports: Pick<PinnedOffsets, 'pin' | 'unpin'>

  constructor(settings: ShardSettings) {
    const state = new ShardState(settings)
    this.#state = state
    this.handovers = state.handovers
    this.queues = state.queues
    this.parkedReports = state.parked
    this.pinnedReports = state.recovery.reports
  }

  /**
   * An input that throws has no effects. Whatever it left behind must not become an effect of the
   * next input.
   */
  handle(input: ShardInput, now: number): ShardEffects {
    this.#state.now = now
    this.#state.effects = []
    this.#apply(input)
    return this.#state.effects
  }

  #apply(input: ShardInput): void {
    const state = this.#state
    switch (input.type) {
      case 'fact':
        return onFact(state, input)
      case 'opened':
        return onOpened(state, input)
      case 'appended':
        return onAppended(state, input.effect, input.offset)
      case 'accepted':
        return onAccepted(state, input)
      case 'messageLookedUp':
        return onMessageLookedUp(state, input.message, input.sentOrFinal)
      case 'prepared':
        return onPrepared(state, input.message, input.preparation)
      case 'answered':
        return onAnswer(state, input.message, input.outcome, input.submission)
      case 'report':
        state.recovery.reports.pin(input.report.offset)
        return matchReport(state, input.report)
      case 'reportLookedUp':
        return onReportLookedUp(state, input.parked, input.known)
      case 'tick':
        return onTick(state)
      case 'committed':
        return onCommitted(state, input.lanes, input.logPosition)
    }
  }

  // ---- changes without effects

  /** Whether the shard has folded this log record. Call it once for each record, in order. */
  isOwn(offset: number): boolean {
    this.#state.logPosition = offset + 1
    return this.#state.ownOffsets.delete(offset)
  }

  judge(lane: number, offset: number, head: AcceptedHead): LaneVerdict {
    return judge(this.#state, lane, offset, head)
  }

  /** Takes the next message of an account. Returns `null` without any. */
  take(lane: number, operator: string, account: string): Message | null {
    return take(this.#state, lane, operator, account)
  }

  closed(): void {
    const { messages, settings } = this.#state
    if (settings.memoryBudget !== undefined) settings.memoryBudget.used -= messages.size
    messages.clear()
  }

  // ---- queries

  get openCount(): number {
    return this.#state.messages.size - this.#state.finished.size
  }
  /** The number of final messages in memory, including those of which only the id is left. */
  get finishedCount(): number {
    return this.#state.finished.size + this.#state.recovery.remembered.size
  }
  /** The approximate memory of the shard, in bytes. The limits bound it. */
  get memoryBytes(): number {
    const { messages, queues, recovery } = this.#state
    return messages.size * MESSAGE_BYTES + recovery.remembered.size * REMEMBERED_BYTES + queues.payloadBytes
  }

  isFull(lane: number, now: number): boolean {
    return this.#isCrowded(lane, 1) || this.queues.cursor(lane).isWaiting(now)
  }
  hasRoom(lane: number, now: number): boolean {
    return !this.#isCrowded(lane, ROOM_SHARE) && !this.queues.cursor(lane).isWaiting(now)
  }
  /** Whether the shard or the process has too many messages, at this share of the limits. */
  #isCrowded(lane: number, share: number): boolean {
    const {
      limits: { finished, open },
      settings: { memoryBudget },
    } = this.#state
    const factor = lane === 0 ? share : share * SERVICE_SHARE
    return (
      this.openCount >= open * factor ||
      this.finishedCount >= finished * factor ||
      (memoryBudget !== undefined && memoryBudget.used >= memoryBudget.limit * factor)
    )
  }

  lowestPinned(): LowestPinned {
    const { queues, recovery } = this.#state
    return { lanes: queues.lowestPinned(), log: recovery.log.lowest(), reports: recovery.reports.lowest() }
  }

  recipientOf(messageId: string): string | null {
    return this.#state.messages.get(messageId)?.key ?? null
  }

  /** Messages for which the read model must say whether they were sent or finished before. */
  messagesToLookUp(limit: number): ReadonlyArray<Message> {
    return this.#state.lookups.values().take(limit).toArray()
  }
}

const onTick = (state: ShardState): void => {
  const { now, queues, timers } = state
  let message = timers.takeDue(now)
  for (; message !== undefined; message = timers.takeDue(now)) {
    const { inHandover, lookupPending, pendingAppends, state: known } = message
    if (inHandover || pendingAppends > 0 || known.final || lookupPending) continue
    if (known.stage === 'awaitingReport' || (known.stage === 'queued' && known.expiresAt <= now)) {
      decideAndRecord(state, message, { type: 'PassDeadline', at: now }, null)
    } else {
      message.blockedUntil = 0
      queues.unblock(message)
      setTimer(state, message)
    }
  }
}
