/**
 * The messages of one shard: a pure state machine. Each input (a record, an answer, a tick) carries
 * the current time, and returns the effects that it causes. The domain (`decide`, `evolve`) decides
 * what the facts of a message mean. This class decides when to ask the domain, and what the shard
 * remembers.
 *
 * A lane offset stays pinned while the payload may still be needed. From the acknowledged
 * `MessageSent` or final fact on, the log alone can restore the message (`recovery-offsets.ts`).
 * The mark of a lane may be hours behind, at a message that its operator does not accept. A restart
 * reads old records again from there, and looks them up in the read model before a handover
 * (docs/decisions/0014).
 */
import type { Fence, LowestPinned, OpenedShard } from '@hub/actor'
import {
  reappendOpen,
  reappendRefusal,
  epochOf,
  evolve,
  type LogFact,
  type MessageAccepted,
} from '@hub/domain'
import type { OpenSubmission, SubmitOutcome } from '@hub/operator'
import type { Append, ReAppend, ShardEffects, ShardSettings } from './effects.ts'
import {
  COMPLETE_MS,
  isCrowded,
  LONGEST_LIFETIME_MS,
  MESSAGE_BYTES,
  OLD_AFTER_MS,
  RE_APPEND_BEHIND,
  RE_APPENDED_IN_ONE,
  REMEMBERED_BYTES,
  REMEMBERED_MS,
  staysCrowded,
} from './limits.ts'
import {
  type KnownMessage,
  makeMessage,
  type Message,
  NONE,
  type PreparedSubmission,
  type Report,
} from './message.ts'
import type { ParkedReport } from './parked-reports.ts'
import { ShardState } from './state.ts'

export class MessageShard {
  readonly #state: ShardState
  /**
   * Offsets of own facts that the shard has folded at their acknowledgement, but not read back yet.
   */
  readonly #ownOffsets = new Set<number>()
  #laneEnds: ReadonlyArray<number> = []
  /** After recovery, some messages still lack their lane records. */
  #awaitsLaneRecords = false

  constructor(settings: ShardSettings) {
    this.#state = new ShardState(settings)
  }

  // ---- queries

  get openCount(): number {
    return this.#state.messages.size - this.#state.finished.size
  }
  /** The number of final messages in memory, including those of which only the id is left. */
  get finishedCount(): number {
    return this.#state.finished.size + this.#state.recovery.rememberedCount
  }
  get parkedCount(): number {
    return this.#state.reports.parkedCount
  }
  /** The number of handovers whose result is not in the log yet. */
  get handovers(): number {
    return this.#state.handovers.count
  }
  handoversAt(operator: string): number {
    return this.#state.handovers.countAt(operator)
  }
  /** The number of messages of a lane with a payload in memory. */
  buffered(lane: number): number {
    return this.#state.queues.count(lane)
  }
  /** The approximate memory of the payloads, in bytes. */
  get payloadBytes(): number {
    return this.#state.queues.payloadBytes
  }
  /** The approximate memory of the shard, in bytes. The limits bound it. */
  get memoryBytes(): number {
    return (
      this.#state.messages.size * MESSAGE_BYTES +
      this.#state.recovery.rememberedCount * REMEMBERED_BYTES +
      this.payloadBytes
    )
  }
  /** The recipient hash of a message in memory, or `null`. */
  recipientOf(messageId: string): string | null {
    return this.#state.messages.get(messageId)?.key ?? null
  }

  /** Whether the runtime must pause the lane. */
  isFull(lane: number, now: number): boolean {
    return isCrowded(lane, this.#memoryUse(), this.#state.limits) || this.#state.queues.isFull(lane, now)
  }
  /** Whether the runtime may resume the lane. */
  hasRoom(lane: number, now: number): boolean {
    return !staysCrowded(lane, this.#memoryUse(), this.#state.limits) && this.#state.queues.hasRoom(lane, now)
  }
  #memoryUse() {
    return { open: this.openCount, finished: this.finishedCount, budget: this.#state.settings.memoryBudget }
  }
  get reportsFull(): boolean {
    return this.#state.reports.isFull
  }
  get reportsHaveRoom(): boolean {
    return this.#state.reports.hasRoom
  }

  /** The bounds of the low-water marks. */
  lowestPinned(): LowestPinned {
    return {
      lanes: this.#state.queues.lowestPinned(),
      log: this.#state.recovery.lowestLog(),
      reports: this.#state.recovery.lowestReport(),
    }
  }

  /** Messages for which the read model must say whether they were handed over before. */
  messagesToLookUp(limit: number): ReadonlyArray<Message> {
    return Iterator.from(this.#state.lookups).take(limit).toArray()
  }
  /** Parked reports for which the read model must find the message. */
  reportsToLookUp(limit: number, now: number): ReadonlyArray<ParkedReport> {
    return this.#state.reports.dueForLookup(now, limit)
  }

  // ---- unreadable records, and the position in the lanes

  seekTarget(lane: number, position: number, now: number): number | null {
    return this.#state.queues.seekTarget(lane, position, now)
  }
  /** Whether a lane record is read for the first time since the shard was opened. */
  isNew(lane: number, offset: number): boolean {
    return this.#state.queues.isNew(lane, offset)
  }
  pinLane(lane: number, offset: number): void {
    this.#state.queues.pinUnreadable(lane, offset)
  }
  unpinLane(lane: number, offset: number): void {
    this.#state.queues.unpin(lane, offset)
  }
  pinReport(offset: number): void {
    this.#state.recovery.pinReport(offset)
  }
  unpinReport(offset: number): void {
    this.#state.recovery.unpinReport(offset)
  }

  // ---- inputs: the log

  /**
   * Whether the shard has already folded this log record. Call it once for each record, in order.
   */
  isOwn(offset: number): boolean {
    this.#state.logPosition = offset + 1
    return this.#ownOffsets.delete(offset)
  }

  /** A fact of the log: before `opened` for recovery, and later a fact of another member. */
  onFact(offset: number, recipient: string, fact: LogFact, fence: Fence, now: number): ShardEffects {
    const epoch = epochOf(fact)
    if (epoch !== null && fence.isVoid(epoch)) {
      this.#state.count('void_claim')
      return this.#state.drain()
    }
    const known = this.#state.messages.get(fact.messageId)
    if (known !== undefined) {
      this.#state.fold(known, fact, offset, now)
      if (this.#state.isOpen) this.#state.settle(known, now)
      else this.#state.shortenIfOld(known, now)
      return this.#state.drain()
    }
    // Recovery has found all messages of the shard. Late facts about forgotten ones add nothing.
    if (this.#state.isOpen || this.#state.recovery.isRemembered(fact.messageId)) return this.#state.drain()
    const message = makeMessage(fact.messageId, recipient, evolve(null, fact))
    if (message.state.final && fact.at < now - LONGEST_LIFETIME_MS) return this.#state.drain()
    this.#state.add(message)
    this.#state.fold(message, fact, offset, now)
    if (message.state.final) this.#state.finish(message, now)
    this.#state.shortenIfOld(message, now)
    return this.#state.drain()
  }

  /** Recovery is complete, and the fence names this member as the owner. */
  opened({ epoch, laneEnds, logPosition, now }: OpenedShard): ShardEffects {
    this.#state.epoch = epoch
    // Fences are no facts: behind the mark of an idle shard there is nothing else.
    this.#state.logPosition = logPosition
    this.#state.isOpen = true
    this.#laneEnds = laneEnds
    const resumed = new Map<string, Array<OpenSubmission>>()
    for (const message of this.#state.messages.values()) {
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
      else this.#state.setTimer(message)
      if (state.stage === 'handingOver') {
        // The operator may have the message. So no other message of the recipient surely matches a
        // report.
        this.#state.reports.addWithoutIds(message)
        this.#state.count('outcome_unknown')
      }
      if (!state.final && state.stage !== 'awaitingReport') this.#awaitsLaneRecords = true
    }
    for (const [operator, open] of resumed) this.#state.emit({ type: 'resume', operator, open })
    return this.#state.drain()
  }

  /** Kafka has acknowledged an `append` or `reAppend` effect. */
  onAppended(effect: Append | ReAppend, offset: number, now: number): ShardEffects {
    if (offset >= this.#state.logPosition) this.#ownOffsets.add(offset)
    if (effect.type === 'append') {
      const { fact, message, next } = effect
      message.pendingAppends--
      this.#state.fold(message, fact, offset, now)
      if (message.pendingAppends === 0) this.#state.afterAppend(message, next, now)
      return this.#state.drain()
    }
    // There is nothing to fold: the facts repeat the states of the messages.
    for (const { fact, message } of effect.open) {
      message.pendingAppends--
      this.#state.recovery.advance(message, fact, offset)
      if (message.pendingAppends > 0) continue
      this.#state.recovery.unpinPartReports(message)
      this.#state.settle(message, now)
    }
    return this.#state.drain()
  }

  /** Another member owns the shard now. */
  closed(): void {
    const { memoryBudget } = this.#state.settings
    if (memoryBudget !== undefined) memoryBudget.used -= this.#state.messages.size
    this.#state.messages.clear()
  }

  // ---- inputs: the lanes

  /** A lane record. `appendedAt` is the time at which Kafka received it. */
  onAccepted(
    lane: number,
    offset: number,
    appendedAt: number,
    accepted: MessageAccepted,
    now: number,
  ): ShardEffects {
    const known = this.#state.messages.get(accepted.messageId)
    const operator = known?.state.operator ?? this.#state.settings.operators[accepted.mode]
    const hasRoom = this.#state.queues.accepts(lane, offset, operator)
    if (known?.state.accepted === true) {
      if (known.laneOffset !== offset) this.#state.count('duplicate_dropped')
      return this.#state.drain()
    }
    if (known === undefined && this.#state.recovery.isRemembered(accepted.messageId)) {
      this.#state.count('duplicate_dropped')
      return this.#state.drain()
    }
    // The shard keeps a message of the log even without room: it may be claimed, and there are few.
    if (known === undefined && !hasRoom) return this.#state.drain()
    const state = evolve(known?.state ?? null, accepted)
    const message = known ?? makeMessage(accepted.messageId, accepted.recipient, state)
    if (known === undefined) this.#state.add(message)
    message.state = state
    message.lane = lane
    message.laneOffset = offset
    message.route = operator
    this.#enqueue(message, appendedAt, accepted, now)
    return this.#state.drain()
  }

  #enqueue(message: Message, appendedAt: number, accepted: MessageAccepted, now: number): void {
    const { retryAt, stage } = message.state
    if (stage !== 'queued' && stage !== 'handingOver') return
    message.accepted = accepted
    message.blockedUntil = retryAt
    // An old record may belong to a message that was handed over, ended, and was forgotten.
    const isOld =
      accepted.republished || appendedAt - accepted.at > OLD_AFTER_MS || now - accepted.at > OLD_AFTER_MS
    if (stage === 'queued' && isOld) {
      message.lookupPending = true
      message.lookupAfter = { lane: message.laneOffset, log: this.#state.logPosition }
      this.#state.lookups.add(message)
    }
    this.#state.queues.add(message, message.lookupPending || retryAt > now || message.pendingAppends > 0)
    this.#state.setTimer(message)
  }

  /** The read model's answer: whether the message was handed over or finished before. */
  lookedUp(message: Message, handedOver: boolean, now: number): ShardEffects {
    if (!this.#state.lookups.delete(message)) return this.#state.drain()
    message.lookupPending = false
    message.lookupAfter = null
    // If the log has told more about an open message meanwhile, the log is right.
    if (!handedOver || message.state.stage !== 'queued') {
      this.#state.settle(message, now)
      return this.#state.drain()
    }
    this.#state.count('known_dropped')
    const reports = message.waitingReports
    message.waitingReports = NONE
    this.#state.queues.remove(message)
    this.#state.forget(message)
    // They belong to the message that the read model knows.
    for (const report of reports) this.#state.reports.onReport(report, now)
    return this.#state.drain()
  }

  // ---- inputs: reports

  onReport(report: Report, now: number): ShardEffects {
    this.#state.recovery.pinReport(report.offset)
    this.#state.reports.onReport(report, now)
    return this.#state.drain()
  }

  /**
   * The read model's answer for a parked report: its message, or `null` if there is none. A read
   * model that has not reached the required offset gives no answer.
   */
  reportLookedUp(
    { report }: Pick<ParkedReport, 'report'>,
    known: KnownMessage | null,
    now: number,
  ): ShardEffects {
    this.#state.reports.lookedUp(report, known, now)
    return this.#state.drain()
  }

  // ---- inputs: handovers

  /**
   * Takes the next message of a lane for an operator, or returns `null`. Claim, postpone or discard
   * it.
   */
  take(lane: number, operator: string): Message | null {
    return this.#state.handovers.take(lane, operator)
  }
  /**
   * The payload is decrypted. The shard appends the claim, and emits `submit` when it is
   * acknowledged.
   */
  claim(message: Message, submission: PreparedSubmission, now: number): ShardEffects {
    this.#state.handovers.claim(message, submission, now)
    return this.#state.drain()
  }
  /** The payload cannot be decrypted before `until`. */
  postpone(message: Message, until: number, now: number): ShardEffects {
    this.#state.handovers.end(message, until, now)
    return this.#state.drain()
  }
  /** The payload can never be decrypted. */
  discard(message: Message, now: number): ShardEffects {
    this.#state.handovers.discard(message, now)
    return this.#state.drain()
  }
  /** The answer to the effect `submit`. `reportDeadline` matters for `accepted` only. */
  submitAnswered(
    message: Message,
    outcome: SubmitOutcome,
    reportDeadline: number,
    now: number,
  ): ShardEffects {
    this.#state.handovers.answered(message, outcome, reportDeadline, now)
    return this.#state.drain()
  }

  // ---- inputs: time

  /** Does what is due. */
  tick(now: number): ShardEffects {
    let message = this.#state.timers.takeDue(now)
    for (; message !== undefined; message = this.#state.timers.takeDue(now)) {
      const { inHandover, lookupPending, pendingAppends, state } = message
      if (inHandover || pendingAppends > 0 || state.final || lookupPending) continue
      if (state.stage === 'awaitingReport' || (state.stage === 'queued' && state.expiresAt <= now)) {
        this.#state.decideAndRecord(message, { type: 'PassDeadline', at: now }, null, now)
      } else {
        message.blockedUntil = 0
        this.#state.queues.unblock(message)
        this.#state.setTimer(message)
      }
    }
    return this.#state.drain()
  }

  /** The marks were committed: forgets old final messages, and re-appends old open ones. */
  committed(lanes: ReadonlyArray<number>, logPosition: number, now: number): ShardEffects {
    this.#state.recovery.forgetRemembered(now)
    for (const message of this.#state.finished) {
      if (now - message.finishedAt < COMPLETE_MS) break
      // Its own facts that are not read back yet, or an answer to come, would look like news.
      if (logPosition <= message.recoveryOffset || message.pendingAppends > 0 || message.inHandover) continue
      if (now - message.finishedAt >= REMEMBERED_MS) this.#state.forget(message)
      else if (message.state.reason !== 'dlr_timeout_local') this.#state.shorten(message)
    }
    if (this.#awaitsLaneRecords && this.#state.queues.areRead(lanes, this.#laneEnds))
      this.#endWithoutRecords(now)
    this.#reAppend(logPosition, now)
    return this.#state.drain()
  }

  /**
   * All lanes are read, and the lane records of some messages are missing: their retention has
   * passed. A claimed message counts as sent. A refused one can never be handed over.
   */
  #endWithoutRecords(now: number): void {
    this.#awaitsLaneRecords = false
    for (const message of this.#state.messages.values()) {
      const { state } = message
      if (state.accepted || message.pendingAppends > 0) continue
      if (state.stage === 'handingOver') {
        this.#state.count('assumed_sent')
        const reportDeadline = this.#state.settings.reportDeadline(state, now)
        this.#state.decideAndRecord(message, { type: 'AssumeSent', at: now, reportDeadline }, null, now)
      } else if (state.stage === 'queued') {
        this.#state.count('record_lost')
        this.#state.forget(message)
      }
    }
  }

  #reAppend(logPosition: number, now: number): void {
    const behind = this.#state.limits.reAppendBehind ?? RE_APPEND_BEHIND
    const due = this.#state.recovery.dueForReAppend(logPosition, now, behind)
    if (due.size === 0) return
    let open: Array<ReAppend['open'][number]> = []
    const emit = () => {
      if (open.length > 0) this.#state.emit({ type: 'reAppend', at: now, open })
      open = []
    }
    for (const message of due) {
      const fact = reappendOpen(message.state, now)
      if (fact === null) {
        const refused = reappendRefusal(message.state, now)
        if (refused !== null) this.#state.record(message, [refused], null, now)
        continue
      }
      const { awaitedParts } = message
      message.pendingAppends++
      open.push({ message, fact: awaitedParts === null ? fact : { ...fact, operatorIds: [...awaitedParts] } })
      if (open.length === RE_APPENDED_IN_ONE) emit()
    }
    emit()
    this.#state.count('carried', due.size)
  }
}
