/**
 * The offsets that recovery still needs. In the log: the recovery offset of each claimed open
 * message (its newest claim, `HandoverRefused` or re-append), and the final fact of each finished
 * message for `REMEMBERED_MS`. In the reports: each one until its content is in the log or adds
 * nothing. If a message expired without the reports of all parts: until the shard forgets it.
 */
import { PinnedOffsets } from '@hub/actor'
import type { LogFact } from '@hub/domain'
import { RE_APPEND_RATIO, REMEMBERED_MS } from './limits.ts'
import { type Message, EMPTY } from './message.ts'

/** A message is young until this age. Nearly all messages are final by then. */
const RE_APPEND_AFTER_MS = 20_000
/** Re-appended per second: 100 kB, in one produce that a one-time code may have to wait for. */
const RE_APPENDED_AT_ONCE = 500
/** The number of pinned offsets to search for messages to re-append, from the oldest on. */
const RE_APPEND_SCAN = 2000

/** A final message of which only the id is left. */
interface RememberedMessage {
  readonly offset: number
  readonly finishedAt: number
}

const canReAppend = (message: Message, now: number): boolean =>
  !message.inHandover &&
  message.pendingAppends === 0 &&
  now - message.recoveryFactAt >= RE_APPEND_AFTER_MS &&
  (message.state.stage === 'awaitingReport' || message.state.stage === 'queued')

/** Whether a fact can become the fact from which recovery restores the message. */
const canRecoverFrom = ({ recoveryFactAt, state }: Message, fact: LogFact): boolean => {
  switch (fact.type) {
    case 'HandoverStarted':
      return state.stage === 'claimed'
    case 'HandoverRefused':
      return state.stage === 'queued' && fact.attempt === state.attempts
    case 'OpenMessageCarried':
      return state.stage === 'awaitingReport' && fact.at >= recoveryFactAt
    case 'MessageDelivered':
    case 'MessageUndelivered':
    case 'MessageRejected':
    case 'MessageExpired':
      return true
    case 'MessageSent':
    case 'MessageSeen':
      return false
  }
}

export class RecoveryOffsets {
  readonly log = new PinnedOffsets<Message | RememberedMessage>()
  readonly reports = new PinnedOffsets()
  /** Messages with pinned reports about some of their parts. */
  readonly #partlyReported = new Set<Message>()
  /** By message id, in the order in which the shard dropped the rest of them. */
  readonly remembered = new Map<string, RememberedMessage>()

  /**
   * Moves the recovery offset forward to a fact. Kafka may store an abandoned produce late, after
   * the results of its retry. Such an old fact says less than the current one, so the offset stays.
   * The offset moves back in one case: the shard reads the operator's answer only after a later
   * claim of its own was acknowledged. Recovery must then begin at the answer.
   *
   * The offset stays at the submit of a message that expired without a report: the operator ids and
   * the submit time, which the adapter needs for a late report, are there.
   */
  advance(message: Message, fact: LogFact, offset: number): void {
    if (
      fact.type === 'MessageExpired' &&
      fact.reason === 'dlr_timeout_local' &&
      message.recoveryOffset >= 0 &&
      message.state.operatorIds.length > 0
    ) {
      message.recoveryFactAt = fact.at
      return
    }
    const answersClaim =
      offset < message.recoveryOffset &&
      fact.type === 'MessageSent' &&
      message.state.stage === 'awaitingReport' &&
      message.state.sentAt === fact.at
    if (offset <= message.recoveryOffset && !answersClaim) return
    if (message.recoveryOffset >= 0 && !answersClaim && !canRecoverFrom(message, fact)) return
    this.unpin(message)
    message.recoveryOffset = offset
    message.recoveryFactAt = fact.at
    this.log.pin(offset, message)
  }

  unpin(message: Message): void {
    if (message.recoveryOffset < 0) return
    this.log.unpin(message.recoveryOffset, message)
    message.recoveryOffset = -1
  }

  remember(messageId: string, offset: number, finishedAt: number): void {
    const earlier = this.remembered.get(messageId)
    if (earlier !== undefined) this.log.unpin(earlier.offset, earlier)
    this.remembered.delete(messageId)
    const remembered = { offset, finishedAt }
    if (offset >= 0) this.log.pin(offset, remembered)
    this.remembered.set(messageId, remembered)
  }

  forgetRemembered(now: number): void {
    for (const [id, remembered] of this.remembered) {
      if (now - remembered.finishedAt < REMEMBERED_MS) break
      this.remembered.delete(id)
      this.log.unpin(remembered.offset, remembered)
    }
  }

  /** Keeps the report of a part pinned until the other reports arrive or the message is re-appended. */
  keepPartReport(message: Message, offset: number): void {
    message.partReports = [...message.partReports, offset]
    this.#partlyReported.add(message)
  }

  unpinPartReports(message: Message): void {
    for (const offset of message.partReports) this.reports.unpin(offset)
    message.partReports = EMPTY
    this.#partlyReported.delete(message)
  }

  /**
   * The messages to re-append, the oldest first, so that the low-water mark can pass their facts.
   * It starts when recovery would not need most of the records behind the mark, so re-appends at
   * most about double the log. Only partly reported messages depend on time: they pin reports.
   */
  dueForReAppend(logPosition: number, now: number, reAppendBehind: number): ReadonlySet<Message> {
    const due = new Set<Message>()
    for (const message of this.#partlyReported) {
      if (due.size < RE_APPENDED_AT_ONCE && canReAppend(message, now)) due.add(message)
    }
    const lowest = this.log.lowest()
    const behind = lowest === null ? 0 : logPosition - lowest
    if (behind <= reAppendBehind + RE_APPEND_RATIO * this.log.size) return due
    let scanned = 0
    for (const owner of this.log.owners()) {
      if (due.size === RE_APPENDED_AT_ONCE || scanned++ === RE_APPEND_SCAN) break
      if ('state' in owner && canReAppend(owner, now)) due.add(owner)
    }
    return due
  }
}
