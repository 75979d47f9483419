/**
 * Finds the message of each delivery report, and decides what the report changes. A report is
 * matched by the operator's id, then by our reference. Without a match it is parked and looked up
 * in the read model, and at last matched by its recipient.
 */
import { decide, evolve } from '@hub/domain'
import { Result } from 'effect'
import type { ShardCore, ShardEvent } from './effects.ts'
import { CLOCK_SKEW_MS } from './limits.ts'
import { type KnownMessage, type Message, EMPTY, operatorKey, type Report } from './message.ts'
import type { OperatorQueues } from './operator-queues.ts'
import { type ParkedReport, ParkedReports } from './parked-reports.ts'
import type { RecoveryOffsets } from './recovery-offsets.ts'

/** After this time without a match, a report may belong to a message whose answer was lost. */
const MATCH_BY_RECIPIENT_MS = 5000
/** After this time the shard drops a report that nobody knows. */
const PARK_MS = 30_000

export class ReportMatching {
  readonly #core: ShardCore
  readonly #queues: OperatorQueues
  readonly #recovery: RecoveryOffsets
  readonly #byOperatorId = new Map<string, Message>()
  /**
   * Messages that were sent, or may have been sent, without a known operator id, by recipient. Also
   * those that expired without a report, until the shard forgets them.
   */
  readonly #withoutIds = new Map<string, Set<Message>>()
  readonly parked = new ParkedReports()

  constructor(core: ShardCore, queues: OperatorQueues, recovery: RecoveryOffsets) {
    this.#core = core
    this.#queues = queues
    this.#recovery = recovery
  }

  /** Learns the operator's ids of a message. Reports parked under these ids then wait for it. */
  registerOperatorIds(message: Message, operator: string, operatorIds: ReadonlyArray<string>): void {
    if (operatorIds.length > 1) message.awaitedParts ??= new Set(operatorIds)
    for (const id of operatorIds) {
      const key = operatorKey(operator, id, message.key)
      this.#byOperatorId.set(key, message)
      const parked = this.parked.take(key)
      if (parked.length > 0) message.waitingReports = [...message.waitingReports, ...parked]
    }
  }

  addWithoutIds(message: Message): void {
    this.#withoutIds.set(message.key, (this.#withoutIds.get(message.key) ?? new Set()).add(message))
  }

  removeWithoutIds(message: Message): void {
    const set = this.#withoutIds.get(message.key)
    if (set === undefined) return
    set.delete(message)
    if (set.size === 0) this.#withoutIds.delete(message.key)
  }

  /** The shard forgets the message, and its waiting reports are duplicates. */
  forget(message: Message): void {
    this.removeWithoutIds(message)
    this.#recovery.unpinPartReports(message)
    for (const report of message.waitingReports) this.#drop(report, 'report_duplicate')
    const { operator, operatorIds } = message.state
    if (operator === null) return
    for (const id of operatorIds) {
      const key = operatorKey(operator, id, message.key)
      if (this.#byOperatorId.get(key) === message) this.#byOperatorId.delete(key)
    }
  }

  onReport(report: Report, now: number): void {
    const named = report.reference === null ? undefined : this.#core.messages.get(report.reference)
    const message =
      this.#byOperatorId.get(operatorKey(report.operator, report.operatorId, report.recipient)) ??
      (named?.key === report.recipient ? named : undefined)
    if (message === undefined || lacksIds(message)) this.#park(report, now)
    else if (this.#mustWait(message)) message.waitingReports = [...message.waitingReports, report]
    else this.#apply(message, report, now)
  }

  /** Applies the waiting reports of a message, as far as nothing else is in progress. */
  applyWaiting(message: Message, now: number): void {
    while (message.waitingReports.length > 0 && !this.#mustWait(message)) {
      const [first, ...rest] = message.waitingReports
      message.waitingReports = rest.length === 0 ? EMPTY : rest
      // Another member may have recorded the end of the message without the ids of its parts.
      if (lacksIds(message)) this.#park(first!, now)
      else this.#apply(message, first!, now)
    }
  }

  /**
   * Reports wait while a handover, an append or a lookup is in progress. After a lost answer they
   * wait for the repeated one: without the ids of all parts, the report of one part would count for
   * all.
   */
  #mustWait(message: Message): boolean {
    if (message.inHandover || message.pendingAppends > 0 || message.lookupPending) return true
    const { operator, stage } = message.state
    return (
      stage === 'handingOver' &&
      operator !== null &&
      this.#core.settings.dedupes(operator) &&
      message.laneRecord?.parts !== 1
    )
  }

  #apply(message: Message, report: Report, now: number, state = message.state): void {
    const { outcome } = report
    const { operatorIds } = state
    // The part was reported before the message was re-appended without it.
    if (
      outcome.status === 'delivered' &&
      operatorIds.length > 0 &&
      !operatorIds.includes(report.operatorId)
    ) {
      return this.#drop(report, 'report_duplicate')
    }
    if (outcome.status === 'delivered' && message.awaitedParts !== null) {
      if (!message.awaitedParts.delete(report.operatorId)) return this.#drop(report, 'report_duplicate')
      if (message.awaitedParts.size > 0) return this.#recovery.keepPartReport(message, report.offset)
    }
    const decision = decide(
      state,
      outcome.status === 'seen'
        ? { type: 'RecordReadReceipt', at: now }
        : { type: 'RecordReport', outcome, at: now },
    )
    if (Result.isFailure(decision)) return this.#drop(report, 'report_impossible')
    if (decision.success.length === 0) return this.#drop(report, 'report_duplicate')
    this.#core.record(message, decision.success, { type: 'unpinReport', offset: report.offset }, now)
  }

  #drop(report: Report, reason: ShardEvent): void {
    this.#core.count(reason)
    this.#recovery.reports.unpin(report.offset)
  }

  #park(report: Report, now: number): void {
    const evicted = this.parked.add(report, now, this.#core.logPosition)
    if (evicted !== null) this.#drop(evicted, 'report_unmatched')
  }

  lookedUp(report: Report, known: KnownMessage | null, now: number): void {
    const parked = this.parked.get(report.offset)
    if (parked === undefined) return
    parked.unknown = known === null
    if (known !== null) {
      if (isCorrectable(known, report)) return this.#correct(parked, known, now)
      if (known.status !== 'accepted' && known.status !== 'sent') {
        this.parked.remove(parked)
        this.#drop(report, 'report_duplicate')
        return
      }
    } else if (this.#matchByRecipient(parked, now)) return
    // While a handover is in progress, its answer may still bring the id of the report.
    if (now - parked.since >= PARK_MS && !this.#queues.isTaken(report.recipient)) {
      this.parked.remove(parked)
      this.#drop(report, 'report_unmatched')
    }
  }

  /** The report changes a message that the shard has forgotten, or of which it knows no ids. */
  #correct(parked: ParkedReport, known: KnownMessage, now: number): void {
    const { operator, operatorIds } = known
    this.parked.remove(parked)
    const present = this.#core.messages.get(known.id)
    const message = present ?? this.#core.addKnown(known, now)
    // The shard may have read only the final fact of the message.
    if (message.state.operatorIds.length === 0) message.state = { ...message.state, operator, operatorIds }
    this.registerOperatorIds(message, operator, operatorIds)
    if (present === undefined) this.#core.afterChange(message, now)
    this.onReport(parked.report, now)
    // Reports of its other parts were parked under their own ids.
    if (present !== undefined) this.#core.afterChange(message, now)
  }

  #matchByRecipient(parked: ParkedReport, now: number): boolean {
    if (this.#queues.isTaken(parked.report.recipient)) return false
    const only = this.#onlyCandidate(parked, now)
    if (only === null || only.state.final || only.inHandover || only.pendingAppends > 0) return false
    const others = this.#reportsOfOtherParts(only, parked.report, now)
    if (others === null) return false
    for (const one of [parked, ...others]) this.parked.remove(one)
    this.#core.count('report_matched_by_recipient')
    const otherReports = others.map(({ report }) => report)
    this.#applyWithIds(only, parked.report, otherReports, now)
    return true
  }

  /** The only message that a report can be about, by its recipient. `null`: none, or not known yet. */
  #onlyCandidate(parked: ParkedReport, now: number): Message | null {
    const { operator, receivedAt, recipient } = parked.report
    if (!parked.unknown || now - parked.since < MATCH_BY_RECIPIENT_MS) return null
    const candidates = [...(this.#withoutIds.get(recipient) ?? [])].filter(
      ({ claimedAt, state }) =>
        state.operator === operator &&
        // No report is about a message that was claimed only afterwards.
        (claimedAt === null || claimedAt <= receivedAt + CLOCK_SKEW_MS),
    )
    // With two candidates, the report cannot be assigned. Both wait for their deadline, and the second
    // one must not get the report of the first one when that has expired.
    parked.isAmbiguous ||= candidates.length > 1
    return parked.isAmbiguous ? null : (candidates[0] ?? null)
  }

  /**
   * The reports of the other parts. `null`: some are missing. The operator may have only some parts of a message
   * whose answers were lost, so the report of one part must not count for all. An operator that knows our
   * references has one id for all parts.
   */
  #reportsOfOtherParts(message: Message, report: Report, now: number): ReadonlyArray<ParkedReport> | null {
    const { parts } = message.state
    const { operator, operatorId, outcome, recipient } = report
    if (parts === null || parts === 1 || outcome.status !== 'delivered') return []
    if (this.#core.settings.dedupes(operator)) return []
    const others = this.parked
      .delivered(operator, recipient)
      .filter(
        (other) => other.report.operatorId !== operatorId && this.#onlyCandidate(other, now) === message,
      )
    return others.length === parts - 1 ? others : null
  }

  /**
   * Also records the operator's ids. When the operator repeats a report, the hub may have forgotten the
   * message, and must not match the report to another message of the recipient.
   */
  #applyWithIds(message: Message, report: Report, others: ReadonlyArray<Report>, now: number): void {
    const operatorIds = [report, ...others].map(({ operatorId }) => operatorId)
    const { operator } = report
    const decision = decide(message.state, {
      type: 'RecordSubmitted',
      operator,
      operatorIds,
      // The outcome follows at once.
      reportDeadline: now,
      at: now,
    })
    const facts = Result.isSuccess(decision) ? decision.success : []
    if (facts.length > 0) this.#core.record(message, facts, null, now)
    // They stay pinned until the log has the outcome.
    for (const { offset } of others) this.#recovery.keepPartReport(message, offset)
    this.#apply(message, report, now, facts.reduce(evolve, message.state))
    // Takes its repetitions that are parked.
    this.registerOperatorIds(message, operator, operatorIds)
    // All parts are reported.
    message.awaitedParts = null
    this.#core.afterChange(message, now)
  }
}

/**
 * Whether the ids of all parts are needed first: otherwise the report of one part would count for all.
 * A late report may correct an expired message, and only the read model knows its number of parts. A
 * message that waits for its submit was submitted by another member, whose fact has the ids.
 */
const lacksIds = ({ laneRecord, state }: Message): boolean =>
  state.operatorIds.length === 0 &&
  (state.reason === 'dlr_timeout_local' || (state.stage === 'queued' && laneRecord?.parts !== 1))

const isCorrectable = (known: KnownMessage, { outcome }: Report): boolean =>
  known.reason === 'dlr_timeout_local' ||
  (known.status === 'delivered' && outcome.status === 'seen' && !known.seen)
