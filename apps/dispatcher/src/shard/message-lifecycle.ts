/**
 * The messages of a shard, and how facts change them. It folds its own facts when Kafka
 * acknowledges them, and all other facts when it reads them. `shard.ts` adds the inputs.
 */
import { TimerHeap } from '@hub/actor'
import { decide, evolve, type LogFact, type MessageCommand, withEpoch } from '@hub/domain'
import { Result } from 'effect'
import type {
  AfterAppend,
  ShardCore,
  ShardEffect,
  ShardEffects,
  ShardEvent,
  ShardSettings,
} from './effects.ts'
import { HandoverProtocol } from './handover-protocol.ts'
import { COMPLETE_MS, DEFAULT_LIMITS, type ShardLimits } from './limits.ts'
import { type KnownMessage, knownState, Message } from './message.ts'
import { OperatorQueues } from './operator-queues.ts'
import { RecoveryOffsets } from './recovery-offsets.ts'
import { ReportMatching } from './report-matching.ts'

export class MessageLifecycle implements ShardCore {
  readonly settings: ShardSettings
  readonly limits: ShardLimits
  readonly messages = new Map<string, Message>()
  /** Complete final messages, in the order in which they became final. */
  readonly finished = new Set<Message>()
  /** Messages that wait for a lookup in the read model. */
  readonly lookups = new Set<Message>()
  readonly timers = new TimerHeap<Message>()
  readonly recovery = new RecoveryOffsets()
  readonly queues: OperatorQueues
  readonly reports: ReportMatching
  readonly handovers: HandoverProtocol
  epoch = 0
  logPosition = 0
  isOpen = false
  #effects: Array<ShardEffect> = []

  constructor(settings: ShardSettings) {
    this.settings = settings
    this.limits = settings.limits ?? DEFAULT_LIMITS
    this.queues = new OperatorQueues(this.limits.buffer, settings.onReady)
    this.reports = new ReportMatching(this, this.queues, this.recovery)
    this.handovers = new HandoverProtocol(this, this.queues, this.reports)
  }

  /**
   * Runs one input, and returns its effects. An input that throws has none. Whatever it left behind
   * must not become an effect of the next input.
   */
  effectsOf(input: () => void): ShardEffects {
    this.#effects = []
    input()
    return this.#effects
  }

  /** Applies a fact that is in the log at `offset`. A repetition changes nothing. */
  fold(message: Message, fact: LogFact, offset: number, now: number): void {
    const before = message.state
    const after = evolve(before, fact)
    message.state = after
    this.recovery.advance(message, fact, offset)
    if (fact.type === 'HandoverStarted') message.claimedAt ??= fact.at
    else if (fact.type === 'HandoverRefused') message.claimedAt = null
    if (fact.type === 'MessageSent' || fact.type === 'OpenMessageCarried') {
      this.reports.registerOperatorIds(message, fact.operator, fact.operatorIds)
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
      if (!before.final || after.status !== before.status) this.finish(message, now)
    } else if (after.stage === 'awaitingReport') {
      this.queues.remove(message)
      if (after.operatorIds.length === 0) this.reports.addWithoutIds(message)
      else this.reports.removeWithoutIds(message)
    } else if (after.stage === 'queued') this.reports.removeWithoutIds(message)
  }

  record(message: Message, facts: ReadonlyArray<LogFact>, next: AfterAppend | null, now: number): void {
    if (facts.length === 0) return this.afterAppend(message, next, now)
    // The pending facts decide what may happen next.
    if (message.laneRecord !== null) this.queues.block(message)
    message.pendingAppends += facts.length
    for (const fact of facts) {
      this.#effects.push({ type: 'append', message, fact: withEpoch(fact, this.epoch), next })
    }
  }

  decideAndRecord(message: Message, command: MessageCommand, next: AfterAppend | null, now: number): void {
    const decision = decide(message.state, command)
    this.record(message, Result.isSuccess(decision) ? decision.success : [], next, now)
  }

  afterAppend(message: Message, next: AfterAppend | null, now: number): void {
    if (next?.type === 'submit') this.handovers.onClaimAppended(message, next.submission, now)
    else if (next?.type === 'endHandover') this.handovers.end(message, next.notBefore, now)
    else if (next?.type === 'unpinReport') this.recovery.reports.unpin(next.offset)
    this.afterChange(message, now)
  }

  afterChange(message: Message, now: number): void {
    if (message.inHandover || message.pendingAppends > 0) return
    if (message.laneRecord !== null && !message.lookupPending && message.blockedUntil <= now) {
      this.queues.unblock(message)
    }
    this.setTimer(message)
    this.reports.applyWaiting(message, now)
  }

  setTimer(message: Message): void {
    const { blockedUntil, inHandover, lookupPending, pendingAppends, state } = message
    if (inHandover || pendingAppends > 0 || lookupPending || state.final) {
      this.timers.clear(message)
      return
    }
    const unblockAt = blockedUntil > 0 ? blockedUntil : Number.POSITIVE_INFINITY
    if (state.stage === 'queued') this.timers.set(message, Math.min(unblockAt, state.expiresAt))
    else if (state.stage === 'handingOver') this.timers.set(message, unblockAt)
    else this.timers.set(message, state.reportDeadline ?? Number.POSITIVE_INFINITY)
  }

  add(message: Message): void {
    this.messages.set(message.id, message)
    if (this.settings.memoryBudget !== undefined) this.settings.memoryBudget.used++
  }

  addKnown(known: KnownMessage, now: number): Message {
    const message = new Message(known.id, known.recipient, knownState(known, now))
    message.finishedAt = now
    this.add(message)
    this.finished.add(message)
    return message
  }

  finish(message: Message, now: number): void {
    this.queues.remove(message)
    this.timers.clear(message)
    // A report may still be about a message that expired without one.
    if (message.state.reason !== 'dlr_timeout_local') this.reports.removeWithoutIds(message)
    if (this.lookups.delete(message)) message.lookupPending = false
    // The report of the last part may correct such a message. A new owner then needs all reports.
    if (message.state.reason !== 'dlr_timeout_local') this.recovery.unpinPartReports(message)
    message.finishedAt = this.isOpen ? now : message.recoveryFactAt
    this.finished.delete(message)
    this.finished.add(message)
  }

  forget(message: Message): void {
    if (this.messages.delete(message.id) && this.settings.memoryBudget !== undefined) {
      this.settings.memoryBudget.used--
    }
    this.finished.delete(message)
    this.timers.clear(message)
    this.recovery.unpin(message)
    this.reports.forget(message)
  }

  /** Forgets a message of which nothing but its lane record exists. It is read again later. */
  giveUp(message: Message): void {
    this.queues.giveUp(message)
    this.lookups.delete(message)
    this.forget(message)
  }

  /** Keeps only the id of a final message. Later reports about it need a lookup. */
  keepIdOnly(message: Message): void {
    const { finishedAt, id, recoveryOffset } = message
    this.forget(message)
    this.recovery.remember(id, recoveryOffset, finishedAt)
  }

  /** During recovery: there may be as many old final messages as open ones. */
  keepIdOnlyIfOld(message: Message, now: number): void {
    const { finishedAt, state } = message
    if (!state.final || state.reason === 'dlr_timeout_local') return
    if (now - finishedAt >= COMPLETE_MS) this.keepIdOnly(message)
  }

  emit(effect: ShardEffect): void {
    this.#effects.push(effect)
  }

  count(event: ShardEvent, count = 1): void {
    this.#effects.push({ type: 'count', event, count })
  }
}
