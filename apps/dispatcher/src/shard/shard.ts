/**
 * The messages of one shard: a pure state machine. Each input (a record, an answer, a tick) carries
 * the current time, and returns its effects. The domain (`decide`, `evolve`) decides what facts
 * mean; this class decides when to ask the domain.
 *
 * A lane offset stays pinned while the payload may be needed. From the acknowledged `MessageSent`
 * or final fact on, the log alone restores the message (`recovery-offsets.ts`). The mark of a lane
 * may be hours behind, so a restart looks old records up before a handover (docs/decisions/0014).
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
import type { Append, ReAppend, ShardEffects } from './effects.ts'
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
import { type KnownMessage, Message, NONE, type PreparedSubmission, type Report } from './message.ts'
import type { ParkedReport } from './parked-reports.ts'
import { ShardState } from './state.ts'

export class MessageShard extends ShardState {
  /** Offsets of own facts that are folded at their acknowledgement, but not read back yet. */
  readonly #ownOffsets = new Set<number>()
  #laneEnds: ReadonlyArray<number> = []
  /** After recovery, some messages still lack their lane records. */
  #awaitsLaneRecords = false

  // ---- queries

  get openCount(): number {
    return this.messages.size - this.finished.size
  }
  /** The number of final messages in memory, including those of which only the id is left. */
  get finishedCount(): number {
    return this.finished.size + this.recovery.remembered.size
  }
  /** The approximate memory of the shard, in bytes. The limits bound it. */
  get memoryBytes(): number {
    return (
      this.messages.size * MESSAGE_BYTES +
      this.recovery.remembered.size * REMEMBERED_BYTES +
      this.queues.payloadBytes
    )
  }

  isFull(lane: number, now: number): boolean {
    return this.#isCrowded(lane, 1) || this.queues.isFull(lane, now)
  }
  hasRoom(lane: number, now: number): boolean {
    return !this.#isCrowded(lane, ROOM_SHARE) && this.queues.hasRoom(lane, now)
  }
  /** Whether the shard or the process has too many messages, at this share of the limits. */
  #isCrowded(lane: number, share: number): boolean {
    const { finished, open } = this.limits
    const { memoryBudget } = this.settings
    const factor = lane === 0 ? share : share * SERVICE_SHARE
    return (
      this.openCount >= open * factor ||
      this.finishedCount >= finished * factor ||
      (memoryBudget !== undefined && memoryBudget.used >= memoryBudget.limit * factor)
    )
  }

  lowestPinned(): LowestPinned {
    return {
      lanes: this.queues.lowestPinned(),
      log: this.recovery.log.lowest(),
      reports: this.recovery.reports.lowest(),
    }
  }

  /** Messages for which the read model must say whether they were handed over before. */
  messagesToLookUp(limit: number): ReadonlyArray<Message> {
    return this.lookups.values().take(limit).toArray()
  }

  // ---- inputs: the log

  /** Whether the shard has folded this log record. Call it once for each record, in order. */
  isOwn(offset: number): boolean {
    this.logPosition = offset + 1
    return this.#ownOffsets.delete(offset)
  }

  /** A fact of the log: before `opened` for recovery, and later a fact of another member. */
  onFact(offset: number, recipient: string, fact: LogFact, fence: Fence, now: number): ShardEffects {
    const epoch = epochOf(fact)
    if (epoch !== null && fence.isVoid(epoch)) {
      this.count('void_claim')
      return this.drain()
    }
    const known = this.messages.get(fact.messageId)
    if (known !== undefined) {
      this.fold(known, fact, offset, now)
      if (this.isOpen) this.settle(known, now)
      else this.shortenIfOld(known, now)
      return this.drain()
    }
    // Recovery has found all messages of the shard. Late facts about forgotten ones add nothing.
    if (this.isOpen || this.recovery.remembered.has(fact.messageId)) return this.drain()
    const message = new Message(fact.messageId, recipient, evolve(null, fact))
    if (message.state.final && fact.at < now - LONGEST_LIFETIME_MS) return this.drain()
    this.add(message)
    this.fold(message, fact, offset, now)
    if (message.state.final) this.finish(message, now)
    this.shortenIfOld(message, now)
    return this.drain()
  }

  /** Recovery is complete, and the fence names this member as the owner. */
  opened({ epoch, laneEnds, logPosition, now }: OpenedShard): ShardEffects {
    this.epoch = epoch
    // Fences are no facts: behind the mark of an idle shard there is nothing else.
    this.logPosition = logPosition
    this.isOpen = true
    this.#laneEnds = laneEnds
    const resumed = new Map<string, Array<OpenSubmission>>()
    for (const message of this.messages.values()) {
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
      else this.setTimer(message)
      if (state.stage === 'handingOver') {
        // The operator may have the message, but its operator ids are unknown. While the outcome is
        // unknown, a report cannot be matched by recipient alone.
        this.reports.addWithoutIds(message)
        this.count('outcome_unknown')
      }
      if (!state.final && state.stage !== 'awaitingReport') this.#awaitsLaneRecords = true
    }
    for (const [operator, open] of resumed) this.emit({ type: 'resume', operator, open })
    return this.drain()
  }

  /** Kafka has acknowledged an `append` or `reAppend` effect. */
  onAppended(effect: Append | ReAppend, offset: number, now: number): ShardEffects {
    if (offset >= this.logPosition) this.#ownOffsets.add(offset)
    if (effect.type === 'append') {
      const { fact, message, next } = effect
      message.pendingAppends--
      this.fold(message, fact, offset, now)
      if (message.pendingAppends === 0) this.afterAppend(message, next, now)
      return this.drain()
    }
    // There is nothing to fold: the facts repeat the states of the messages.
    for (const { fact, message } of effect.open) {
      message.pendingAppends--
      this.recovery.advance(message, fact, offset)
      if (message.pendingAppends > 0) continue
      this.recovery.unpinPartReports(message)
      this.settle(message, now)
    }
    return this.drain()
  }

  closed(): void {
    const { memoryBudget } = this.settings
    if (memoryBudget !== undefined) memoryBudget.used -= this.messages.size
    this.messages.clear()
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
    const known = this.messages.get(accepted.messageId)
    const operator = known?.state.operator ?? this.settings.operators[accepted.mode]
    const hasRoom = this.queues.cursor(lane).accepts(offset, operator)
    if (known?.state.accepted === true) {
      if (known.laneOffset !== offset) this.count('duplicate_dropped')
      return this.drain()
    }
    if (known === undefined && this.recovery.remembered.has(accepted.messageId)) {
      this.count('duplicate_dropped')
      return this.drain()
    }
    // The shard keeps a message of the log even without room: it may be claimed, and there are few.
    if (known === undefined && !hasRoom) return this.drain()
    const state = evolve(known?.state ?? null, accepted)
    const message = known ?? new Message(accepted.messageId, accepted.recipient, state)
    if (known === undefined) this.add(message)
    message.state = state
    message.lane = lane
    message.laneOffset = offset
    message.route = operator
    this.#enqueue(message, appendedAt, accepted, now)
    return this.drain()
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
      message.lookupAfter = { lane: message.laneOffset, log: this.logPosition }
      this.lookups.add(message)
    }
    this.queues.push(message, message.lookupPending || retryAt > now || message.pendingAppends > 0)
    this.setTimer(message)
  }

  /** The read model's answer: whether the message was handed over or finished before. */
  lookedUp(message: Message, handedOver: boolean, now: number): ShardEffects {
    if (!this.lookups.delete(message)) return this.drain()
    message.lookupPending = false
    message.lookupAfter = null
    // If the log has told more about an open message meanwhile, the log is right.
    if (!handedOver || message.state.stage !== 'queued') {
      this.settle(message, now)
      return this.drain()
    }
    this.count('known_dropped')
    const reports = message.waitingReports
    message.waitingReports = NONE
    this.queues.remove(message)
    this.forget(message)
    // They belong to the message that the read model knows.
    for (const report of reports) this.reports.onReport(report, now)
    return this.drain()
  }

  // ---- inputs: reports

  onReport(report: Report, now: number): ShardEffects {
    this.recovery.reports.pin(report.offset)
    this.reports.onReport(report, now)
    return this.drain()
  }

  /** The read model's answer for a parked report: its message, or `null` if there is none. */
  reportLookedUp({ report }: ParkedReport, known: KnownMessage | null, now: number): ShardEffects {
    this.reports.lookedUp(report, known, now)
    return this.drain()
  }

  // ---- inputs: handovers of messages that `handovers.take` has returned

  /** The payload is decrypted. Appends the claim, and later emits `submit`. */
  claim(message: Message, submission: PreparedSubmission, now: number): ShardEffects {
    this.handovers.claim(message, submission, now)
    return this.drain()
  }
  /** The payload cannot be decrypted before `until`. */
  postpone(message: Message, until: number, now: number): ShardEffects {
    this.handovers.end(message, until, now)
    return this.drain()
  }
  discard(message: Message, now: number): ShardEffects {
    this.handovers.discard(message, now)
    return this.drain()
  }
  /** The answer to the effect `submit`. The report deadline matters for `accepted` only. */
  submitAnswered(message: Message, outcome: SubmitOutcome, deadline: number, now: number): ShardEffects {
    this.handovers.answered(message, outcome, deadline, now)
    return this.drain()
  }

  // ---- inputs: time

  tick(now: number): ShardEffects {
    let message = this.timers.takeDue(now)
    for (; message !== undefined; message = this.timers.takeDue(now)) {
      const { inHandover, lookupPending, pendingAppends, state } = message
      if (inHandover || pendingAppends > 0 || state.final || lookupPending) continue
      if (state.stage === 'awaitingReport' || (state.stage === 'queued' && state.expiresAt <= now)) {
        this.decideAndRecord(message, { type: 'PassDeadline', at: now }, null, now)
      } else {
        message.blockedUntil = 0
        this.queues.unblock(message)
        this.setTimer(message)
      }
    }
    return this.drain()
  }

  /** The marks were committed: forgets old final messages, and re-appends old open ones. */
  committed(lanes: ReadonlyArray<number>, logPosition: number, now: number): ShardEffects {
    this.recovery.forgetRemembered(now)
    for (const message of this.finished) {
      if (now - message.finishedAt < COMPLETE_MS) break
      // Its own facts that are not read back yet, or an answer to come, would look like news.
      if (logPosition <= message.recoveryOffset || message.pendingAppends > 0 || message.inHandover) continue
      if (now - message.finishedAt >= REMEMBERED_MS) this.forget(message)
      else if (message.state.reason !== 'dlr_timeout_local') this.shorten(message)
    }
    if (this.#awaitsLaneRecords && this.queues.areRead(lanes, this.#laneEnds)) this.#endWithoutRecords(now)
    this.#reAppend(logPosition, now)
    return this.drain()
  }

  /**
   * All lanes are read, and some lane records are missing: their retention has passed. A claimed
   * message counts as sent. A refused one can never be handed over.
   */
  #endWithoutRecords(now: number): void {
    this.#awaitsLaneRecords = false
    for (const message of this.messages.values()) {
      const { state } = message
      if (state.accepted || message.pendingAppends > 0) continue
      if (state.stage === 'handingOver') {
        this.count('assumed_sent')
        const reportDeadline = this.settings.reportDeadline(state, now)
        this.decideAndRecord(message, { type: 'AssumeSent', at: now, reportDeadline }, null, now)
      } else if (state.stage === 'queued') {
        this.count('record_lost')
        this.forget(message)
      }
    }
  }

  #reAppend(logPosition: number, now: number): void {
    const behind = this.limits.reAppendBehind ?? RE_APPEND_BEHIND
    const due = this.recovery.dueForReAppend(logPosition, now, behind)
    if (due.size === 0) return
    let open: Array<ReAppend['open'][number]> = []
    const emit = () => {
      if (open.length > 0) this.emit({ type: 'reAppend', at: now, open })
      open = []
    }
    for (const message of due) {
      const fact = reappendOpen(message.state, now)
      if (fact === null) {
        const refused = reappendRefusal(message.state, now)
        if (refused !== null) this.record(message, [refused], null, now)
        continue
      }
      const { awaitedParts } = message
      message.pendingAppends++
      open.push({ message, fact: awaitedParts === null ? fact : { ...fact, operatorIds: [...awaitedParts] } })
      if (open.length === RE_APPENDED_IN_ONE) emit()
    }
    emit()
    this.count('carried', due.size)
  }
}
