/**
 * The messages of one shard: a pure state machine. Each input (a record, an answer, a tick) carries
 * the current time. Call it within `effectsOf`, which returns its effects. The domain (`decide`,
 * `evolve`) decides what facts mean; this class decides when to ask the domain.
 *
 * A lane offset stays pinned while the payload may be needed. From the acknowledged `MessageSent`
 * or final fact on, the log alone restores the message (`recovery-offsets.ts`). The mark of a lane
 * may be hours behind, so a restart looks old records up before a handover (docs/decisions/0014).
 */
import type { Fence, LowestPinned, OpenedShard, PinnedOffsets } from '@hub/actor'
import {
  reappendOpen,
  reappendRefusal,
  epochOf,
  evolve,
  type LogFact,
  type MessageAccepted,
} from '@hub/domain'
import type { AcceptedHead } from '@hub/kafka'
import type { OpenSubmission } from '@hub/operator'
import type { Append, ReAppend, ShardEffects, ShardSettings } from './effects.ts'
import type { HandoverProtocol } from './handover-protocol.ts'
import {
  COMPLETE_MS,
  LONGEST_LIFETIME_MS,
  MESSAGE_BYTES,
  OLD_AFTER_MS,
  RE_APPEND_BEHIND,
  RE_APPENDED_IN_ONE,
  REMEMBERED_BYTES,
  REMEMBERED_MS,
  ROOM_SHARE,
  SERVICE_SHARE,
} from './limits.ts'
import { MessageLifecycle } from './message-lifecycle.ts'
import { type KnownMessage, EMPTY, Message, type Report } from './message.ts'
import type { OperatorQueues } from './operator-queues.ts'
import type { ParkedReport, ParkedReports } from './parked-reports.ts'

export class MessageShard {
  readonly #core: MessageLifecycle
  /** The inputs about handovers. */
  readonly handovers: HandoverProtocol
  readonly queues: Pick<OperatorQueues, 'count' | 'cursor' | 'pinUnreadable' | 'shares' | 'unpin'>
  readonly parkedReports: Pick<ParkedReports, 'due' | 'hasRoom' | 'isFull' | 'size'>
  readonly pinnedReports: Pick<PinnedOffsets, 'pin' | 'unpin'>
  /** Offsets of own facts that are folded at their acknowledgement, but not read back yet. */
  readonly #ownOffsets = new Set<number>()
  #laneEnds: ReadonlyArray<number> = []
  /** After recovery, some messages still lack their lane records. */
  #awaitsLaneRecords = false

  constructor(settings: ShardSettings) {
    const core = new MessageLifecycle(settings)
    this.#core = core
    this.handovers = core.handovers
    this.queues = core.queues
    this.parkedReports = core.reports.parked
    this.pinnedReports = core.recovery.reports
  }

  /** Runs one input, and returns its effects. */
  effectsOf(input: () => void): ShardEffects {
    return this.#core.effectsOf(input)
  }

  // ---- queries

  get openCount(): number {
    return this.#core.messages.size - this.#core.finished.size
  }
  /** The number of final messages in memory, including those of which only the id is left. */
  get finishedCount(): number {
    return this.#core.finished.size + this.#core.recovery.remembered.size
  }
  /** The approximate memory of the shard, in bytes. The limits bound it. */
  get memoryBytes(): number {
    return (
      this.#core.messages.size * MESSAGE_BYTES +
      this.#core.recovery.remembered.size * REMEMBERED_BYTES +
      this.#core.queues.payloadBytes
    )
  }

  isFull(lane: number, now: number): boolean {
    return this.#isCrowded(lane, 1) || this.#core.queues.cursor(lane).isWaiting(now)
  }
  hasRoom(lane: number, now: number): boolean {
    return !this.#isCrowded(lane, ROOM_SHARE) && !this.#core.queues.cursor(lane).isWaiting(now)
  }
  /** Whether the shard or the process has too many messages, at this share of the limits. */
  #isCrowded(lane: number, share: number): boolean {
    const { finished, open } = this.#core.limits
    const { memoryBudget } = this.#core.settings
    const factor = lane === 0 ? share : share * SERVICE_SHARE
    return (
      this.openCount >= open * factor ||
      this.finishedCount >= finished * factor ||
      (memoryBudget !== undefined && memoryBudget.used >= memoryBudget.limit * factor)
    )
  }

  lowestPinned(): LowestPinned {
    return {
      lanes: this.#core.queues.lowestPinned(),
      log: this.#core.recovery.log.lowest(),
      reports: this.#core.recovery.reports.lowest(),
    }
  }

  recipientOf(messageId: string): string | null {
    return this.#core.messages.get(messageId)?.key ?? null
  }

  /** Messages for which the read model must say whether they were handed over before. */
  messagesToLookUp(limit: number): ReadonlyArray<Message> {
    return this.#core.lookups.values().take(limit).toArray()
  }

  // ---- inputs: the log

  /** Whether the shard has folded this log record. Call it once for each record, in order. */
  isOwn(offset: number): boolean {
    this.#core.logPosition = offset + 1
    return this.#ownOffsets.delete(offset)
  }

  /** A fact of the log: before `opened` for recovery, and later a fact of another member. */
  onFact(offset: number, recipient: string, fact: LogFact, fence: Fence, now: number): void {
    const epoch = epochOf(fact)
    if (epoch !== null && fence.isVoid(epoch)) {
      this.#core.count('void_claim')
      return
    }
    const known = this.#core.messages.get(fact.messageId)
    if (known !== undefined) {
      this.#core.fold(known, fact, offset, now)
      if (this.#core.isOpen) this.#core.afterChange(known, now)
      else this.#core.keepIdOnlyIfOld(known, now)
      return
    }
    // Recovery has found all messages of the shard. Late facts about forgotten ones add nothing.
    if (this.#core.isOpen || this.#core.recovery.remembered.has(fact.messageId)) return
    const message = new Message(fact.messageId, recipient, evolve(null, fact))
    if (message.state.final && fact.at < now - LONGEST_LIFETIME_MS) return
    this.#core.add(message)
    this.#core.fold(message, fact, offset, now)
    if (message.state.final) this.#core.finish(message, now)
    this.#core.keepIdOnlyIfOld(message, now)
  }

  /** Recovery is complete, and the fence names this member as the owner. */
  opened({ epoch, laneEnds, logPosition, now }: OpenedShard): void {
    this.#core.epoch = epoch
    // Fences are no facts: behind the mark of an idle shard there is nothing else.
    this.#core.logPosition = logPosition
    this.#core.isOpen = true
    this.#laneEnds = laneEnds
    const resumed = new Map<string, Array<OpenSubmission>>()
    for (const message of this.#core.messages.values()) {
      const { state } = message
      const mayBeCorrected = state.reason === 'dlr_timeout_local'
      if (
        state.operator !== null &&
        state.sentAt !== null &&
        (mayBeCorrected || state.stage === 'awaitingReport')
      ) {
        const list = resumed.get(state.operator) ?? []
        list.push({
          reference: message.id,
          recipient: message.key,
          operatorIds: message.awaitedParts === null ? state.operatorIds : [...message.awaitedParts],
          sentAt: state.sentAt,
        })
        resumed.set(state.operator, list)
      }
      // A restart does not make a final message younger.
      if (state.final) message.finishedAt = Math.min(message.finishedAt, now)
      else this.#core.setTimer(message)
      if (state.stage === 'handingOver') {
        // The operator may have the message, but its operator ids are unknown. While the outcome is
        // unknown, a report cannot be matched by recipient alone.
        this.#core.reports.addWithoutIds(message)
        this.#core.count('outcome_unknown')
      }
      if (!state.final && state.stage !== 'awaitingReport') this.#awaitsLaneRecords = true
    }
    for (const [operator, open] of resumed) this.#core.emit({ type: 'resume', operator, open })
  }

  /** Kafka has acknowledged an `append` or `reAppend` effect. */
  onAppended(effect: Append | ReAppend, offset: number, now: number): void {
    if (offset >= this.#core.logPosition) this.#ownOffsets.add(offset)
    if (effect.type === 'append') {
      const { fact, message, next } = effect
      message.pendingAppends--
      this.#core.fold(message, fact, offset, now)
      if (message.pendingAppends === 0) this.#core.afterAppend(message, next, now)
      return
    }
    // There is nothing to fold: the facts repeat the states of the messages.
    for (const { fact, message } of effect.open) {
      message.pendingAppends--
      this.#core.recovery.advance(message, fact, offset)
      if (message.pendingAppends > 0) continue
      this.#core.recovery.unpinPartReports(message)
      this.#core.afterChange(message, now)
    }
  }

  closed(): void {
    const { memoryBudget } = this.#core.settings
    if (memoryBudget !== undefined) memoryBudget.used -= this.#core.messages.size
    this.#core.messages.clear()
  }

  // ---- inputs: the lanes

  /**
   * Whether the shard keeps a lane record now: then `onAccepted` follows. Call it once for each read,
   * in order. It needs only the beginning of the record.
   */
  accepts(lane: number, offset: number, { account, messageId, mode }: AcceptedHead): boolean {
    const known = this.#core.messages.get(messageId)
    const operator = known?.state.operator ?? this.#core.settings.operators[mode]
    const isNew = this.#core.queues.cursor(lane).isNew(offset)
    const hasRoom = this.#core.queues.accepts(lane, offset, operator, account)
    if (known?.state.accepted ?? this.#core.recovery.remembered.has(messageId)) {
      // The shard reads the lane again for other accounts.
      if (isNew && known?.laneOffset !== offset) this.#core.count('duplicate_dropped')
      return false
    }
    // The shard keeps a message of the log even without room: it may be claimed, and there are few.
    return known !== undefined || hasRoom
  }

  /** A lane record that the shard keeps. `appendedAt` is the time at which Kafka received it. */
  onAccepted(lane: number, offset: number, appendedAt: number, accepted: MessageAccepted, now: number): void {
    const known = this.#core.messages.get(accepted.messageId)
    const route = known?.state.operator ?? this.#core.settings.operators[accepted.mode]
    const toGiveUp = () => this.#core.queues.toGiveUp(lane, route, accepted.account)
    for (let other = toGiveUp(); other !== null; other = toGiveUp()) this.#core.giveUp(other)
    const state = evolve(known?.state ?? null, accepted)
    const message = known ?? new Message(accepted.messageId, accepted.recipient, state)
    if (known === undefined) this.#core.add(message)
    message.state = state
    message.lane = lane
    message.laneOffset = offset
    message.route = route
    this.#enqueue(message, appendedAt, accepted, now)
  }

  #enqueue(message: Message, appendedAt: number, accepted: MessageAccepted, now: number): void {
    const { retryAt, stage } = message.state
    if (stage !== 'queued' && stage !== 'handingOver') return
    message.laneRecord = accepted
    message.blockedUntil = retryAt
    // An old record may belong to a message that was handed over, ended, and was forgotten.
    const isOld =
      accepted.republished || appendedAt - accepted.at > OLD_AFTER_MS || now - accepted.at > OLD_AFTER_MS
    if (stage === 'queued' && isOld) {
      message.lookupPending = true
      message.lookupAfter = { lane: message.laneOffset, log: this.#core.logPosition }
      this.#core.lookups.add(message)
    }
    this.#core.queues.push(message, message.lookupPending || retryAt > now || message.pendingAppends > 0)
    this.#core.setTimer(message)
  }

  /** The read model's answer: whether the message was handed over or finished before. */
  lookedUp(message: Message, handedOver: boolean, now: number): void {
    if (!this.#core.lookups.delete(message)) return
    message.lookupPending = false
    message.lookupAfter = null
    // If the shard has read newer facts of an open message meanwhile, those count.
    if (!handedOver || message.state.stage !== 'queued') {
      this.#core.afterChange(message, now)
      return
    }
    this.#core.count('known_dropped')
    const reports = message.waitingReports
    message.waitingReports = EMPTY
    this.#core.queues.remove(message)
    this.#core.forget(message)
    // They belong to the message that the read model knows.
    for (const report of reports) this.#core.reports.onReport(report, now)
  }

  // ---- inputs: reports

  onReport(report: Report, now: number): void {
    this.#core.recovery.reports.pin(report.offset)
    this.#core.reports.onReport(report, now)
  }

  /** The read model's answer for a parked report: its message, or `null` if there is none. */
  reportLookedUp({ report }: ParkedReport, known: KnownMessage | null, now: number): void {
    this.#core.reports.lookedUp(report, known, now)
  }

  // ---- inputs: time

  tick(now: number): void {
    let message = this.#core.timers.takeDue(now)
    for (; message !== undefined; message = this.#core.timers.takeDue(now)) {
      const { inHandover, lookupPending, pendingAppends, state } = message
      if (inHandover || pendingAppends > 0 || state.final || lookupPending) continue
      if (state.stage === 'awaitingReport' || (state.stage === 'queued' && state.expiresAt <= now)) {
        this.#core.decideAndRecord(message, { type: 'PassDeadline', at: now }, null, now)
      } else {
        message.blockedUntil = 0
        this.#core.queues.unblock(message)
        this.#core.setTimer(message)
      }
    }
  }

  /** The marks were committed: forgets old final messages, and re-appends old open ones. */
  committed(lanes: ReadonlyArray<number>, logPosition: number, now: number): void {
    this.#core.recovery.forgetRemembered(now)
    for (const message of this.#core.finished) {
      if (now - message.finishedAt < COMPLETE_MS) break
      // Its own facts that are not read back yet, or an answer to come, would look like news.
      if (logPosition <= message.recoveryOffset || message.pendingAppends > 0 || message.inHandover) continue
      if (now - message.finishedAt >= REMEMBERED_MS) this.#core.forget(message)
      else if (message.state.reason !== 'dlr_timeout_local') this.#core.keepIdOnly(message)
    }
    if (this.#awaitsLaneRecords && this.#core.queues.areRead(lanes, this.#laneEnds))
      this.#endWithoutRecords(now)
    this.#reAppend(logPosition, now)
  }

  /**
   * All lanes are read, and some lane records are missing: their retention has passed. A claimed
   * message counts as sent. A refused one can never be handed over.
   */
  #endWithoutRecords(now: number): void {
    this.#awaitsLaneRecords = false
    for (const message of this.#core.messages.values()) {
      const { state } = message
      if (state.accepted || message.pendingAppends > 0) continue
      if (state.stage === 'handingOver') this.handovers.assumeSent(message, null, now)
      else if (state.stage === 'queued') {
        this.#core.count('record_lost')
        this.#core.forget(message)
      }
    }
  }

  #reAppend(logPosition: number, now: number): void {
    const behind = this.#core.limits.reAppendBehind ?? RE_APPEND_BEHIND
    const due = this.#core.recovery.dueForReAppend(logPosition, now, behind)
    if (due.size === 0) return
    let open: Array<ReAppend['open'][number]> = []
    const emit = () => {
      if (open.length > 0) this.#core.emit({ type: 'reAppend', at: now, open })
      open = []
    }
    for (const message of due) {
      const fact = reappendOpen(message.state, now)
      if (fact === null) {
        const refused = reappendRefusal(message.state, now)
        if (refused !== null) this.#core.record(message, [refused], null, now)
        continue
      }
      const { awaitedParts } = message
      message.pendingAppends++
      open.push({ message, fact: awaitedParts === null ? fact : { ...fact, operatorIds: [...awaitedParts] } })
      if (open.length === RE_APPENDED_IN_ONE) emit()
    }
    emit()
    this.#core.count('carried', due.size)
  }
}
