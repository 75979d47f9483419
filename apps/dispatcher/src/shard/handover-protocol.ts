/**
 * The steps of a handover in a shard: take, claim, submit, answer. Kafka must acknowledge the claim
 * before the shard emits `submit`. A handover ends without a submit if the payload cannot be
 * decrypted or the time to live has passed.
 */
import { decide } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import { Result } from 'effect'
import type { AfterAppend, ShardCore } from './effects.ts'
import type { Message, PreparedSubmission } from './message.ts'
import type { OperatorQueues } from './operator-queues.ts'
import type { ReportMatching } from './report-matching.ts'

/** The pause after a lost answer. It doubles with each one, up to the longest pause. */
const LOST_ANSWER_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
/** The longest retry time of a throttled message is 32 times the first: eight seconds over SMPP. */
const MOST_DOUBLINGS = 5

type Refused = Extract<SubmitOutcome, { readonly type: 'refused' }>

const END = { type: 'endHandover', notBefore: 0 } as const

export class HandoverProtocol {
  readonly #core: ShardCore
  readonly #queues: OperatorQueues
  readonly #reports: ReportMatching
  readonly #counts = new Map<string, number>()
  readonly #unacknowledged = new Set<Message>()

  constructor(core: ShardCore, queues: OperatorQueues, reports: ReportMatching) {
    this.#core = core
    this.#queues = queues
    this.#reports = reports
  }

  /** The number of handovers whose result is not in the log yet. */
  get count(): number {
    let sum = 0
    for (const count of this.#counts.values()) sum += count
    return sum
  }

  countAt(operator: string): number {
    return this.#counts.get(operator) ?? 0
  }

  /** The number of taken messages whose claim Kafka has not acknowledged yet. */
  get unacknowledged(): number {
    return this.#unacknowledged.size
  }

  /** The message that `take` would return. */
  peek(lane: number, operator: string, account: string): Message | null {
    return this.#queues.peek(lane, operator, account)
  }

  /** Takes the next message of an account. Returns `null` without any. */
  take(lane: number, operator: string, account: string): Message | null {
    const message = this.#queues.take(lane, operator, account)
    if (message === null) return null
    message.inHandover = true
    this.#unacknowledged.add(message)
    this.#counts.set(message.route, this.countAt(message.route) + 1)
    return message
  }

  /** The payload is decrypted. Appends the claim, and later emits `submit`. */
  claim(message: Message, submission: PreparedSubmission, now: number): void {
    const { dedupes } = this.#core.settings
    message.earlierClaimOpen = message.state.stage === 'handingOver'
    const decision = decide(message.state, {
      type: 'HandOver',
      epoch: this.#core.epoch,
      operator: message.route,
      dedupes: dedupes(message.route),
      lastUnsubmitted: message.lastClaimUnsubmitted,
      at: now,
    })
    message.lastClaimUnsubmitted = false
    if (Result.isSuccess(decision)) {
      this.#core.record(message, decision.success, { type: 'submit', submission }, now)
      return
    }
    const { failure } = decision
    switch (failure._tag) {
      case 'RetryNotDue':
        return this.end(message, failure.retryAt, now)
      case 'LifetimeExpired':
      case 'OutcomeUnknown':
        return this.discard(message, now)
      case 'AlreadyHandedOver':
      case 'AcceptanceUnknown':
      case 'MessageUnknown':
      case 'NotHandedOver':
        return this.end(message, 0, now)
    }
  }

  /** Kafka has acknowledged the claim. */
  onClaimAppended(message: Message, submission: PreparedSubmission, now: number): void {
    this.#unacknowledged.delete(message)
    // The log may meanwhile contain the end of the message, from another member's claim.
    if (message.state.stage !== 'handingOver') this.end(message, 0, now)
    // The append may have taken longer than the rest of the time to live.
    else if (now >= message.state.expiresAt) this.answered(message, { type: 'notWritten' }, submission, now)
    else this.#core.emit({ type: 'submit', message, submission })
  }

  /** The message cannot be handed over (again): its time to live or its payload key is gone. */
  discard(message: Message, now: number): void {
    const { expiresAt, stage } = message.state
    if (stage === 'handingOver') return this.assumeSent(message, END, now)
    this.#core.decideAndRecord(message, { type: 'PassDeadline', at: Math.max(now, expiresAt) }, END, now)
  }

  /**
   * The payload is damaged. The message keeps its state until its time to live ends, and stops no other
   * message meanwhile. If an earlier process could read it, it may have been submitted.
   */
  setAside(message: Message, now: number): void {
    if (message.state.stage === 'handingOver') return this.assumeSent(message, END, now)
    this.#endHandover(message)
    this.#queues.setAside(message)
    this.#core.afterChange(message, now)
  }

  /** No answer to the claim will come: the message counts as sent. */
  assumeSent(message: Message, next: AfterAppend | null, now: number): void {
    this.#core.count('assumed_sent')
    const reportDeadline = this.#core.settings.reportDeadline(message.state, null, now)
    this.#core.decideAndRecord(message, { type: 'AssumeSent', at: now, reportDeadline }, next, now)
  }

  answered(message: Message, outcome: SubmitOutcome, submission: PreparedSubmission, at: number): void {
    switch (outcome.type) {
      case 'accepted': {
        const { operatorIds } = outcome
        const operator = message.route
        const reportDeadline = this.#core.settings.reportDeadline(message.state, submission, at)
        // Reports may overtake the append of this fact. They find the message, and wait.
        this.#reports.registerOperatorIds(message, operator, operatorIds)
        this.#core.decideAndRecord(
          message,
          { type: 'RecordSubmitted', operator, operatorIds, reportDeadline, at },
          END,
          at,
        )
        return
      }
      case 'rejected':
        this.#core.decideAndRecord(message, { type: 'RecordRejection', reason: outcome.reason, at }, END, at)
        return
      case 'refused':
      case 'notWritten': {
        const retryAt = outcome.type === 'refused' ? at + this.#retryAfterMs(message, outcome) : at
        const submitted = outcome.type === 'refused' && outcome.submitted
        // The earlier claim may have succeeded. A refusal does not disprove that, so it is no fact.
        if (message.earlierClaimOpen) {
          message.lastClaimUnsubmitted = !submitted
          return this.end(message, Math.max(retryAt, at + LOST_ANSWER_PAUSE_MS), at)
        }
        this.#core.decideAndRecord(
          message,
          { type: 'RecordRefusal', submitted, retryAt, at },
          { type: 'endHandover', notBefore: retryAt },
          at,
        )
        return
      }
      case 'unknown': {
        this.#core.count('outcome_unknown')
        if (!this.#core.settings.dedupes(message.route)) return this.discard(message, at)
        const pause = Math.min(LOST_ANSWER_PAUSE_MS * 2 ** message.lostAnswers, LONGEST_PAUSE_MS)
        message.lostAnswers++
        return this.end(message, at + pause, at)
      }
    }
  }

  /** A message that is throttled again and again waits longer: its recipient may be the reason. */
  #retryAfterMs({ state }: Message, { retryAfterMs, throttledParts = 0 }: Refused): number {
    if (throttledParts === 0) return retryAfterMs
    const doublings = Math.min(state.attempts - 1, MOST_DOUBLINGS)
    return retryAfterMs * 2 ** Math.max(0, doublings)
  }

  /** Ends the handover. A message that is still open is available again from `notBefore` on. */
  end(message: Message, notBefore: number, now: number): void {
    if (!message.inHandover) return
    this.#endHandover(message)
    if (message.state.final || message.state.stage === 'awaitingReport') {
      this.#queues.remove(message)
    } else {
      message.blockedUntil = notBefore
      this.#queues.requeue(message, notBefore > now)
      if (notBefore <= now) this.#queues.unblock(message)
    }
    this.#core.afterChange(message, now)
  }

  #endHandover(message: Message): void {
    message.inHandover = false
    this.#unacknowledged.delete(message)
    this.#counts.set(message.route, this.countAt(message.route) - 1)
  }
}
